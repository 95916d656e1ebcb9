"""The scheduler's configuration."""

from __future__ import annotations

import msgspec

from orchgit.model.operator import SchedulerConfig
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

_CONFIG = msgspec.msgpack.Decoder(SchedulerConfig)


class SchedulerConfigReads(TableReads):
    def get(self) -> SchedulerConfig:
        """Returns the stored configuration, or the defaults."""
        row = self._connection.execute("SELECT body FROM scheduler_config").fetchone()
        return _CONFIG.decode(row[0]) if row else SchedulerConfig()


class SchedulerConfigWrites(SchedulerConfigReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, config: SchedulerConfig) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO scheduler_config VALUES (1, ?, ?, ?)",
            (config.create_index, config.modify_index, msgspec.msgpack.encode(config)),
        )
        self._entry.changed("scheduler_config", ["config"])
