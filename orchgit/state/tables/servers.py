"""The servers of the cluster."""

from __future__ import annotations

from orchgit.model.server import ServerRecord
from orchgit.state.body_table import BodyTable
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

SERVERS = BodyTable("servers", ServerRecord, "address id create_index modify_index")


class ServerReads(TableReads):
    def get(self, address: str) -> ServerRecord | None:
        return SERVERS.get(self._connection, address)

    def all(self) -> list[ServerRecord]:
        """Returns them ordered by Raft address."""
        return SERVERS.find(self._connection)


class ServerWrites(ServerReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, server: ServerRecord) -> None:
        SERVERS.put(self._connection, [server])
        self._entry.changed("servers", [server.address])

    def delete(self, address: str) -> None:
        if SERVERS.delete(self._connection, [address]):
            self._entry.changed("servers", [address])
