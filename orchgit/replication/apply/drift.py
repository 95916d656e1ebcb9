"""Jobs that differ from what the applied commits of their sources want."""

from __future__ import annotations

import msgspec

from orchgit.model.drift import DriftKind, JobDrift
from orchgit.model.job import ChangedBy, Job, JobOrigin
from orchgit.model.ownership import runs_once
from orchgit.replication.apply.handler import Handlers
from orchgit.replication.commands.drift import RecordDrift
from orchgit.replication.events import Effects
from orchgit.state.transaction import WriteTxn


def record_drift(txn: WriteTxn, command: RecordDrift, effects: Effects) -> list[tuple[str, str]]:
    """Return (namespace, job id) of those passed over since their drift was written meanwhile,
    perhaps only a note of it: they have to be compared again."""
    passed_over = []
    for namespace, job_id in command.clear:
        known = txn.drifted_jobs.get(namespace, job_id)
        if known is not None and known.modify_index <= command.as_of:
            txn.drifted_jobs.delete_all([(namespace, job_id)])
            effects.note(txn.index, "JobDriftEnded", known)
        elif known is not None:
            passed_over.append((namespace, job_id))
    for drift in command.put:
        known = txn.drifted_jobs.get(drift.namespace, drift.job_id)
        if known is not None and known.modify_index > command.as_of:
            passed_over.append((drift.namespace, drift.job_id))
        elif txn.sources.get(drift.source) is not None:
            _store(txn, drift, effects)
    for note in command.notes:
        known = txn.drifted_jobs.get(note.namespace, note.job_id)
        if known is not None and known.note != note.note:
            _store(txn, msgspec.structs.replace(known, note=note.note), effects)
    return passed_over


def note_purge(txn: WriteTxn, job: Job, changed_by: ChangedBy, effects: Effects) -> None:
    """Record who purged a job that its source wants: the job's own record goes.

    A job that its source stopped, and one that runs once, has not drifted when it is purged.
    """
    origin = job.origin or JobOrigin()
    known = txn.drifted_jobs.get(job.namespace, job.id)
    if txn.sources.get(origin.source) is None or job.parent_id or runs_once(job):
        return
    if job.stop and known is None:
        return
    drift = JobDrift(
        namespace=job.namespace,
        job_id=job.id,
        source=origin.source,
        kind=DriftKind.MISSING,
        file=origin.file,
        line=origin.line,
        commit_id=origin.commit_id,
        job_version=job.version,
        changed_by=changed_by.text,
        changed_via=changed_by.via,
        since_ns=known.since_ns if known is not None else txn.now_ns,
    )
    _store(txn, drift, effects)


def _store(txn: WriteTxn, drift: JobDrift, effects: Effects) -> None:
    known = txn.drifted_jobs.get(drift.namespace, drift.job_id)
    drift.create_index = known.create_index if known is not None else txn.index
    drift.modify_index = txn.index
    txn.drifted_jobs.put_all([drift])
    effects.note(txn.index, "JobDrifted", drift)


HANDLERS: Handlers = {
    RecordDrift: record_drift,
}
