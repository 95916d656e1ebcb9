"""Which jobs of sources are not as their sources have them."""

from __future__ import annotations

from typing import ClassVar

from orchgit.model.base import Model
from orchgit.model.drift import JobDrift
from orchgit.replication.commands.entry import Entry


class DriftNote(Model):
    namespace: str
    job_id: str
    note: str = ""


class RecordDrift(Entry, tag="record-drift", kw_only=True):
    """Store which jobs have drifted and, in `clear` (namespace, job id), which no longer have.

    `notes` are set on jobs that still are recorded as drifted. Jobs of sources that were removed
    meanwhile are passed over, and so are jobs whose drift was written after the state at `as_of`,
    from which the entry was computed.
    """

    since: ClassVar[int] = 4

    as_of: int = 0
    put: list[JobDrift] = []
    clear: list[tuple[str, str]] = []
    notes: list[DriftNote] = []


DriftCommand = RecordDrift
