"""Dynamic host volumes, and the claims of sticky groups on them."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.volume import HostVolume, TaskGroupVolumeClaim
from orchgit.state.body_table import BodyTable, conditions
from orchgit.state.tables.base import Reads, Writes

HOST_VOLUMES = BodyTable(
    "host_volumes",
    HostVolume,
    "id namespace name node_id create_index modify_index",
)
CLAIMS = BodyTable(
    "volume_claims",
    TaskGroupVolumeClaim,
    "id namespace job_id task_group_name volume_id alloc_id create_index modify_index",
)


class VolumeReads(Reads):
    def host_volume(self, volume_id: str) -> HostVolume | None:
        return HOST_VOLUMES.get(self.connection, volume_id)

    def host_volumes(
        self, namespace: str | None = None, node_id: str | None = None
    ) -> list[HostVolume]:
        where, values = conditions(namespace=namespace, node_id=node_id)
        return HOST_VOLUMES.find(self.connection, where, values)

    def volume_claims(
        self, namespace: str | None = None, job_id: str | None = None
    ) -> list[TaskGroupVolumeClaim]:
        where, values = conditions(namespace=namespace, job_id=job_id)
        return CLAIMS.find(self.connection, where, values)

    def volume_claim(self, claim_id: str) -> TaskGroupVolumeClaim | None:
        return CLAIMS.get(self.connection, claim_id)


class VolumeWrites(VolumeReads, Writes):
    def put_host_volume(self, volume: HostVolume) -> None:
        HOST_VOLUMES.put(self.connection, [volume])
        self._changed("host_volumes", [volume.id])

    def delete_host_volume(self, volume_id: str) -> None:
        HOST_VOLUMES.delete(self.connection, [volume_id])
        self._changed("host_volumes", [volume_id])

    def put_volume_claim(self, claim: TaskGroupVolumeClaim) -> None:
        CLAIMS.put(self.connection, [claim])
        self._changed("volume_claims", [claim.id])

    def delete_volume_claims(self, claim_ids: Sequence[str]) -> None:
        CLAIMS.delete(self.connection, claim_ids)
        self._changed("volume_claims", claim_ids)
