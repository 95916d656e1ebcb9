"""Registering, stopping and purging jobs, and which of their versions are kept."""

from __future__ import annotations

import msgspec

from orchgit.errors import ConflictError, NotFoundError, RefusedError
from orchgit.jobdiff.spec import same_spec
from orchgit.model.base import Model
from orchgit.model.evaluation import Evaluation
from orchgit.model.job import ChangedBy, Job, JobOrigin, JobStatus, JobVersionTag
from orchgit.model.ownership import owner_of
from orchgit.model.scaling import EVENTS_KEPT, JobScalingEvents
from orchgit.replication.apply.drift import note_purge
from orchgit.replication.apply.evaluations import store_evaluations
from orchgit.replication.apply.handler import Handlers
from orchgit.replication.commands.jobs import (
    ChangeJob,
    DeleteJobVersionTag,
    DeregisterJob,
    JobDeletion,
    JobUpsert,
    RecordPeriodicLaunch,
    RecordScalingEvent,
    RegisterJob,
    SetJobStability,
    SetJobVersionTag,
    StopJob,
)
from orchgit.replication.events import Effects
from orchgit.state.changes import job_key
from orchgit.state.transaction import WriteTxn

VERSIONS_KEPT = 6
PURGED = "alloc not needed as its job was purged"


class JobResult(Model):
    """The result of a registration or a deregistration.

    `changed` False: the job is registered with the same spec; no version was created.
    """

    namespace: str = ""
    job_id: str = ""
    version: int = 0
    job_modify_index: int = 0
    eval_id: str = ""
    changed: bool = True


def register_job(txn: WriteTxn, command: RegisterJob, effects: Effects) -> JobResult:
    result = upsert_job(txn, command.upsert, effects)
    return _evaluated(txn, result, command.evaluation, effects, "JobRegistered")


def deregister_job(txn: WriteTxn, command: DeregisterJob, effects: Effects) -> JobResult:
    result = delete_job(txn, command.deletion, effects)
    return _evaluated(txn, result, command.evaluation, effects, "JobDeregistered")


def change_job(txn: WriteTxn, command: ChangeJob, effects: Effects) -> JobResult:
    job = command.upsert.job
    known = txn.jobs.get(job.namespace, job.id)
    job.origin = _origin_changed_by(job, command.changed_by, known)
    result = upsert_job(txn, command.upsert, effects)
    return _evaluated(txn, result, command.evaluation, effects, "JobRegistered")


def stop_job(txn: WriteTxn, command: StopJob, effects: Effects) -> JobResult:
    result = delete_job(txn, command.deletion, effects, command.changed_by)
    return _evaluated(txn, result, command.evaluation, effects, "JobDeregistered")


def _origin_changed_by(job: Job, changed_by: ChangedBy, known: Job | None) -> JobOrigin:
    """Returns the origin of `job`, the next version of `known`, with who changed it."""
    version = known.version + 1 if known is not None else 0
    return msgspec.structs.replace(
        job.origin or JobOrigin(),
        changed_by=msgspec.structs.replace(changed_by, version=version),
    )


def _evaluated(
    txn: WriteTxn,
    result: JobResult,
    evaluation: Evaluation | None,
    effects: Effects,
    type_: str,
) -> JobResult:
    if evaluation is not None:
        result.eval_id = evaluation.id
        for_job(evaluation, result)
        store_evaluations(txn, [evaluation], effects, type_)
    return result


def for_job(evaluation: Evaluation, result: JobResult) -> None:
    """Give the evaluation the index at which the job changed, which was not known before."""
    evaluation.job_modify_index = result.job_modify_index


def check_modify_index(known: Job | None, expected: int | None, job_id: str) -> None:
    """Compare-and-set on a job: `expected` 0 stands for a new job, None for any.

    Raises ConflictError.
    """
    if expected is None or expected == (known.job_modify_index if known else 0):
        return
    if known is None:
        raise ConflictError(
            f"cannot change job {job_id!r}: it is not registered, but modify index {expected} was "
            "expected; read the job again"
        )
    wanted = "that it does not exist yet" if expected == 0 else f"modify index {expected}"
    raise ConflictError(
        f"cannot change job {job_id!r}: its modify index is {known.job_modify_index}, but "
        f"{wanted} was expected; somebody else changed it: read the job again"
    )


def upsert_job(
    txn: WriteTxn, upsert: JobUpsert, effects: Effects, renew: bool = False
) -> JobResult:
    """Store a new version of the job, unless it is registered with the same spec; with `renew` also
    then."""
    job = upsert.job
    if _stored_as_new(txn, upsert):
        return _registered(txn, upsert, effects)
    known = txn.jobs.get(job.namespace, job.id)
    check_modify_index(known, upsert.expected_modify_index, job.id)
    if not txn.namespaces.has(job.namespace):
        raise NotFoundError(
            f"cannot register job {job.id!r}: there is no namespace {job.namespace!r}; create it "
            "first"
        )
    if known is not None and not renew and same_spec(known, job):
        if job.origin is not None and job.origin.source != owner_of(known):
            txn.jobs.put(msgspec.structs.replace(known, origin=job.origin, modify_index=txn.index))
        return _result(known, changed=False)
    store_version(txn, job, known)
    return _registered(txn, upsert, effects)


def _stored_as_new(txn: WriteTxn, upsert: JobUpsert) -> bool:
    """Store the job as a new one, without reading first: most jobs are new when registered.

    Returns False, and stores nothing, where the job may be registered, or its namespace missing.
    """
    job = upsert.job
    if upsert.expected_modify_index or not txn.namespaces.has(job.namespace):
        return False
    _become_version(txn, job, None)
    if not txn.jobs.insert(job):
        return False
    _store_summary(txn, job)
    return True


def _registered(txn: WriteTxn, upsert: JobUpsert, effects: Effects) -> JobResult:
    job = upsert.job
    if upsert.submission is not None:
        job_text = msgspec.structs.replace(
            upsert.submission,
            namespace=job.namespace,
            job_id=job.id,
            version=job.version,
            job_modify_index=job.job_modify_index,
        )
        txn.job_submissions.put(job_text)
    effects.note(txn.index, "JobRegistered", job)
    return _result(job, changed=True)


def _result(job: Job, changed: bool) -> JobResult:
    return JobResult(
        namespace=job.namespace,
        job_id=job.id,
        version=job.version,
        job_modify_index=job.job_modify_index,
        changed=changed,
    )


def store_version(txn: WriteTxn, job: Job, known: Job | None) -> None:
    """Store `job` as the next version of `known`, or as the first one; drop old versions."""
    _become_version(txn, job, known)
    txn.jobs.put(job)
    _store_summary(txn, job)
    if known is not None:
        _drop_old_versions(txn, job)


def _become_version(txn: WriteTxn, job: Job, known: Job | None) -> None:
    job.version = known.version + 1 if known else 0
    job.create_index = known.create_index if known else txn.index
    job.modify_index = job.job_modify_index = txn.index
    job.status = known.status if known else JobStatus.PENDING
    job.status_description, job.stable = "", False


def _store_summary(txn: WriteTxn, job: Job) -> None:
    txn.job_summaries.add_groups(job.namespace, job.id, [group.name for group in job.task_groups])
    txn.job_statuses.touch(job.namespace, job.id)


def _drop_old_versions(txn: WriteTxn, job: Job) -> None:
    """Keep the newest versions, tagged ones and the newest stable one: a revert may need them."""
    versions = txn.job_versions.of_job(job.namespace, job.id)
    if len(versions) <= VERSIONS_KEPT:
        return
    stable = next((old.version for old in versions if old.stable), None)
    untagged = [old for old in versions if old.version_tag is None]
    surplus = len(untagged) - VERSIONS_KEPT
    droppable = [old for old in reversed(untagged) if old.version != stable]
    for old in droppable[: max(0, surplus)]:
        txn.jobs.drop_version(job, old.version)


def delete_job(
    txn: WriteTxn,
    deletion: JobDeletion,
    effects: Effects,
    changed_by: ChangedBy | None = None,
) -> JobResult:
    """Stop a job by a new version with `stop`, or purge it with all that belongs to it.

    `changed_by` is the person who does it; None: the job's source, or the server itself.
    """
    known = txn.jobs.get(deletion.namespace, deletion.job_id)
    if known is None:
        raise NotFoundError(
            f"cannot stop job {deletion.job_id!r}: there is no such job in namespace "
            f"{deletion.namespace!r}"
        )
    check_modify_index(known, deletion.expected_modify_index, known.id)
    effects.note(txn.index, "JobDeregistered", known)
    if deletion.purge:
        if changed_by is not None:
            note_purge(txn, known, changed_by, effects)
        _purge(txn, known)
        return _result(known, changed=True)
    if known.stop:
        return _result(known, changed=False)
    stopped = msgspec.structs.replace(known, stop=True)
    if changed_by is not None:
        stopped.origin = _origin_changed_by(stopped, changed_by, known)
    store_version(txn, stopped, known)
    return _result(stopped, changed=True)


def _purge(txn: WriteTxn, job: Job) -> None:
    """Delete the job, and stop its live allocations at once.

    A new job of this id has no part of them, and its version numbers begin again at 0.
    """
    records = txn.allocations.rows(txn.allocations.live_ids_of_job(job.namespace, job.id)).values()
    for record in records:
        record.desired_status = "stop"
        record.body.desired_description = PURGED
        record.alloc_modify_index = txn.index
    txn.allocations.save(records)
    txn.volume_claims.delete_all(
        [claim.id for claim in txn.volume_claims.all(job.namespace, job.id)]
    )
    txn.job_summaries.flush()
    if txn.scaling_events.get(job.namespace, job.id) is not None:
        txn.scaling_events.delete(job.namespace, job.id)
    txn.jobs.delete(job.namespace, job.id)


def set_job_stability(txn: WriteTxn, command: SetJobStability, effects: Effects) -> None:
    mark_stability(txn, command.namespace, command.job_id, command.version, command.stable)


def mark_stability(txn: WriteTxn, namespace: str, job_id: str, version: int, stable: bool) -> None:
    """Set whether a version is stable; a version that was dropped is left alone."""
    job = txn.job_versions.get(namespace, job_id, version)
    if job is not None and job.stable != stable:
        txn.job_versions.set_stable(job, stable)


def set_job_version_tag(txn: WriteTxn, command: SetJobVersionTag, effects: Effects) -> None:
    versions = txn.job_versions.of_job(command.namespace, command.job_id)
    wanted = command.version
    if wanted is None and versions:
        wanted = versions[0].version
    chosen = next((each for each in versions if each.version == wanted), None)
    if chosen is None:
        raise RefusedError(f'job "{command.job_id}" version {wanted} not found')
    tagged = _version_tagged(versions, command.name)
    if tagged is not None and tagged.version != chosen.version:
        raise RefusedError(
            f'tag "{command.name}" already exists on a different version of job "{command.job_id}"'
        )
    chosen.version_tag = JobVersionTag(command.name, command.description, command.now_ns)
    txn.job_versions.put_tag(chosen)


def delete_job_version_tag(txn: WriteTxn, command: DeleteJobVersionTag, effects: Effects) -> None:
    versions = txn.job_versions.of_job(command.namespace, command.job_id)
    tagged = _version_tagged(versions, command.name)
    if tagged is None:
        raise RefusedError(f'tag "{command.name}" not found on job "{command.job_id}"')
    tagged.version_tag = None
    txn.job_versions.put_tag(tagged)
    _drop_old_versions(txn, versions[0])


def _version_tagged(versions: list[Job], name: str) -> Job | None:
    return next(
        (
            each
            for each in versions
            if each.version_tag is not None and each.version_tag.name == name
        ),
        None,
    )


def record_scaling_event(txn: WriteTxn, command: RecordScalingEvent, effects: Effects) -> None:
    """Add the event to those of a registered job."""
    namespace, job_id = command.namespace, command.job_id
    if txn.jobs.get(namespace, job_id) is None:
        return
    known = txn.scaling_events.get(namespace, job_id)
    events = known or JobScalingEvents(
        job_key(namespace, job_id), namespace, job_id, create_index=txn.index
    )
    event = msgspec.structs.replace(command.event, create_index=txn.index)
    events.groups = {
        **events.groups,
        command.group: [event, *events.groups.get(command.group, ())][:EVENTS_KEPT],
    }
    events.modify_index = txn.index
    txn.scaling_events.put(events)


def record_periodic_launch(txn: WriteTxn, command: RecordPeriodicLaunch, effects: Effects) -> None:
    txn.periodic_launches.put(command.namespace, command.job_id, command.launch_time_ns)


HANDLERS: Handlers = {
    RegisterJob: register_job,
    DeregisterJob: deregister_job,
    ChangeJob: change_job,
    StopJob: stop_job,
    SetJobStability: set_job_stability,
    SetJobVersionTag: set_job_version_tag,
    DeleteJobVersionTag: delete_job_version_tag,
    RecordScalingEvent: record_scaling_event,
    RecordPeriodicLaunch: record_periodic_launch,
}
