"""The claims of sticky groups on host volumes."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.volume import TaskGroupVolumeClaim
from orchgit.state.body_table import BodyTable, conditions
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

CLAIMS = BodyTable(
    "volume_claims",
    TaskGroupVolumeClaim,
    "id namespace job_id task_group_name volume_id alloc_id create_index modify_index",
)


class VolumeClaimReads(TableReads):
    def get(self, claim_id: str) -> TaskGroupVolumeClaim | None:
        return CLAIMS.get(self._connection, claim_id)

    def all(
        self, namespace: str | None = None, job_id: str | None = None
    ) -> list[TaskGroupVolumeClaim]:
        where, values = conditions(namespace=namespace, job_id=job_id)
        return CLAIMS.find(self._connection, where, values)


class VolumeClaimWrites(VolumeClaimReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, claim: TaskGroupVolumeClaim) -> None:
        CLAIMS.put(self._connection, [claim])
        self._entry.changed("volume_claims", [claim.id])

    def delete_all(self, claim_ids: Sequence[str]) -> None:
        CLAIMS.delete(self._connection, claim_ids)
        self._entry.changed("volume_claims", claim_ids)
