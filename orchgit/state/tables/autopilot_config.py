"""Autopilot's configuration."""

from __future__ import annotations

import msgspec

from orchgit.model.operator import AutopilotConfig
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

_CONFIG = msgspec.msgpack.Decoder(AutopilotConfig)


class AutopilotConfigReads(TableReads):
    def get(self) -> AutopilotConfig:
        """Returns the stored configuration, or the defaults with index 0."""
        row = self._connection.execute("SELECT body FROM autopilot_config").fetchone()
        return _CONFIG.decode(row[0]) if row else AutopilotConfig()


class AutopilotConfigWrites(AutopilotConfigReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, config: AutopilotConfig) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO autopilot_config VALUES (1, ?, ?, ?)",
            (config.create_index, config.modify_index, msgspec.msgpack.encode(config)),
        )
        self._entry.changed("autopilot_config", ["config"])
