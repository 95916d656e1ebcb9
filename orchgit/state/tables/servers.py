"""The servers of the cluster, what all of them must agree on, and how autopilot treats them."""

from __future__ import annotations

import msgspec

from orchgit.model.operator import AutopilotConfig
from orchgit.model.server import ServerRecord
from orchgit.state.body_table import BodyTable
from orchgit.state.tables.base import Reads, Writes

_AUTOPILOT = msgspec.msgpack.Decoder(AutopilotConfig)
SERVERS = BodyTable("servers", ServerRecord, "address id create_index modify_index")


class ServerReads(Reads):
    def server(self, address: str) -> ServerRecord | None:
        return SERVERS.get(self.connection, address)

    def servers(self) -> list[ServerRecord]:
        """Ordered by raft address."""
        return SERVERS.find(self.connection)

    def cluster_key_check(self) -> str:
        """What `ServerRecord.cluster_key_check` of each server must be; empty until the first
        leader has said it."""
        sql = "SELECT value FROM meta WHERE key = 'cluster_key_check'"
        row = self.connection.execute(sql).fetchone()
        return str(row[0]) if row else ""

    def autopilot_config(self) -> AutopilotConfig:
        """The defaults, with index 0, until somebody has set it."""
        row = self.connection.execute("SELECT body FROM autopilot_config").fetchone()
        return _AUTOPILOT.decode(row[0]) if row else AutopilotConfig()


class ServerWrites(ServerReads, Writes):
    def put_server(self, server: ServerRecord) -> None:
        SERVERS.put(self.connection, [server])
        self._changed("servers", [server.address])

    def delete_server(self, address: str) -> None:
        if SERVERS.delete(self.connection, [address]):
            self._changed("servers", [address])

    def put_autopilot_config(self, config: AutopilotConfig) -> None:
        self.connection.execute(
            "INSERT OR REPLACE INTO autopilot_config VALUES (1, ?, ?, ?)",
            (config.create_index, config.modify_index, msgspec.msgpack.encode(config)),
        )
        self._changed("autopilot_config", ["config"])
