"""The scaling events of jobs, one row per job."""

from __future__ import annotations

from orchgit.model.scaling import JobScalingEvents
from orchgit.state.body_table import BodyTable
from orchgit.state.changes import job_key
from orchgit.state.entry import EntryContext
from orchgit.state.tables.base import TableReads

SCALING_EVENTS = BodyTable(
    "scaling_events", JobScalingEvents, "id namespace job_id create_index modify_index"
)


class ScalingEventReads(TableReads):
    def get(self, namespace: str, job_id: str) -> JobScalingEvents | None:
        return SCALING_EVENTS.get(self._connection, job_key(namespace, job_id))


class ScalingEventWrites(ScalingEventReads):
    def __init__(self, entry: EntryContext) -> None:
        super().__init__(entry.connection)
        self._entry = entry

    def put(self, events: JobScalingEvents) -> None:
        SCALING_EVENTS.put(self._connection, [events])
        self._entry.changed("scaling_events", [events.id])

    def delete(self, namespace: str, job_id: str) -> None:
        key = job_key(namespace, job_id)
        SCALING_EVENTS.delete(self._connection, [key])
        self._entry.changed("scaling_events", [key])
