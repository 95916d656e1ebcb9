"""CSI volumes with their claims."""

from __future__ import annotations

from orchgit.model.csi import CsiVolume, volume_key
from orchgit.state.body_table import BodyTable, conditions
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

CSI_VOLUMES = BodyTable(
    "csi_volumes", CsiVolume, "key namespace plugin_id create_index modify_index"
)


class CsiVolumeReads(TableReads):
    def get(self, namespace: str, volume_id: str) -> CsiVolume | None:
        return CSI_VOLUMES.get(self._connection, volume_key(namespace, volume_id))

    def all(self, namespace: str | None = None) -> list[CsiVolume]:
        where, values = conditions(namespace=namespace)
        return CSI_VOLUMES.find(self._connection, where, values)


class CsiVolumeWrites(CsiVolumeReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, volume: CsiVolume) -> None:
        CSI_VOLUMES.put(self._connection, [volume])
        self._entry.changed("csi_volumes", [volume.key])

    def delete(self, namespace: str, volume_id: str) -> None:
        key = volume_key(namespace, volume_id)
        CSI_VOLUMES.delete(self._connection, [key])
        self._entry.changed("csi_volumes", [key])
