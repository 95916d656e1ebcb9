"""Dynamic host volumes."""

from __future__ import annotations

from typing import cast

from orchgit.model.volume import HostVolume
from orchgit.state.body_table import BodyTable, conditions
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

HOST_VOLUMES = BodyTable(
    "host_volumes", HostVolume, "id namespace name node_id create_index modify_index"
)


class HostVolumeReads(TableReads):
    def get(self, volume_id: str) -> HostVolume | None:
        return HOST_VOLUMES.get(self._connection, volume_id)

    def all(self, namespace: str | None = None, node_id: str | None = None) -> list[HostVolume]:
        where, values = conditions(namespace=namespace, node_id=node_id)
        return HOST_VOLUMES.find(self._connection, where, values)

    def newest_of_nodes(self) -> dict[str, int]:
        """Returns the nodes that have volumes -> the newest modify index of those."""
        sql = "SELECT node_id, MAX(modify_index) FROM host_volumes GROUP BY node_id"
        return dict(cast(list[tuple[str, int]], self._rows(sql)))


class HostVolumeWrites(HostVolumeReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, volume: HostVolume) -> None:
        HOST_VOLUMES.put(self._connection, [volume])
        self._entry.changed("host_volumes", [volume.id])

    def delete(self, volume_id: str) -> None:
        HOST_VOLUMES.delete(self._connection, [volume_id])
        self._entry.changed("host_volumes", [volume_id])
