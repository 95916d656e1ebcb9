"""Sources and rollouts: a commit's jobs in one entry, whole or not at all (invariant 9)."""

from __future__ import annotations

import msgspec

from orchgit.errors import ConflictError, NotFoundError, RefusedError
from orchgit.model.held_version import HeldVersion
from orchgit.model.job import JobOrigin
from orchgit.model.ownership import owner_of
from orchgit.model.rollout import Rollout, RolloutStatus
from orchgit.model.source import GitRef, Source, SourceErrorKind, SourceKind, SourceStatus
from orchgit.replication.apply.evaluations import store_evaluations
from orchgit.replication.apply.handler import Handlers
from orchgit.replication.apply.jobs import delete_job, for_job, upsert_job
from orchgit.replication.apply.source_rename import rename_source
from orchgit.replication.commands.gitops import (
    ApplyCommit,
    ApplyRollout,
    ApplyStage,
    DefineSource,
    DeleteRollouts,
    DeleteSource,
    MoveRefs,
    PutSource,
    RecordGates,
    RecordProgress,
    RecordRollout,
    RecordSourceHealth,
    RefMove,
    RemoveSource,
    RenameSource,
    SetJobOwner,
    SetSourceStatus,
    StoreSource,
    UpdateSourceStatus,
    UpsertSource,
)
from orchgit.replication.events import Effects
from orchgit.state.transaction import WriteTxn


def apply_rollout(
    txn: WriteTxn, command: ApplyRollout | ApplyCommit | ApplyStage, effects: Effects
) -> Rollout:
    """Register jobs, then delete jobs, and move the applied commit, which only this does."""
    source = _source(txn, command.rollout.source)
    if source.status.applied_commit != command.expected_commit:
        raise ConflictError(
            f"cannot apply commit {command.rollout.commit.id[:12]} of source {source.name!r}: it "
            f"was planned on {_commit(command.expected_commit)}, but "
            f"{_commit(source.status.applied_commit)} is applied now; plan it again"
        )
    if isinstance(command, ApplyStage):
        _check_current(txn, command.rollout, command.expected_rollout_index)
        known = txn.rollouts.place(command.rollout.id)
        is_later_stage = (
            bool(command.expected_rollout_index) and known is not None and known.was_applied
        )
        if is_later_stage and source.status.applied_rollout != command.rollout.id:
            raise ConflictError(
                f"cannot apply a stage of rollout {command.rollout.id[:8]}: rollout "
                f"{source.status.applied_rollout[:8]} of source {source.name!r} replaced it"
            )
    if command.rollout.commit.id != source.status.applied_commit:
        why = f"superseded by commit {command.rollout.commit.id[:8]}"
        _end_waiting(txn, source.name, command.now_ns, why, effects, command.rollout.id)
    _move_refs(txn, source.repository_name, command.ref_moves)
    renewed = set(command.renew) if isinstance(command, ApplyStage) else set()
    upserted = [
        upsert_job(txn, upsert, effects, (upsert.job.namespace, upsert.job.id) in renewed)
        for upsert in command.upserts
    ]
    deleted = [delete_job(txn, deletion, effects) for deletion in command.deletions]
    results = {(result.namespace, result.job_id): result for result in upserted + deleted}
    for evaluation in command.evaluations:
        result = results.get((evaluation.namespace, evaluation.job_id))
        if result is not None:
            for_job(evaluation, result)
    store_evaluations(txn, command.evaluations, effects)
    rollout = command.rollout
    for job in rollout.jobs:
        if (result := results.get((job.namespace, job.job_id))) is not None:
            job.job_version = result.version
    _store_rollout(txn, rollout, effects, is_applied_now=True)
    source.status.applied_commit = source.status.seen_commit = rollout.commit.id
    source.status.applied_rollout = rollout.id
    source.status.last_error, source.status.error_kind = "", SourceErrorKind.NONE
    source.status.error_since_ns = 0
    _store_source(txn, source, effects)
    return rollout


def apply_commit(txn: WriteTxn, command: ApplyCommit | ApplyStage, effects: Effects) -> Rollout:
    """As `apply_rollout`, and store which jobs that run once the source has applied."""
    rollout = apply_rollout(txn, command, effects)
    for applied in command.remember:
        known = txn.applied_jobs.get(applied.namespace, applied.job_id)
        applied.create_index = known.create_index if known else txn.index
        applied.modify_index = txn.index
    txn.applied_jobs.put_all(command.remember)
    txn.applied_jobs.delete_all(command.forget)
    source = _source(txn, rollout.source)
    if not source.status.remembers_jobs:
        source.status.remembers_jobs = True
        _store_source(txn, source, effects)
    return rollout


def apply_stage(txn: WriteTxn, command: ApplyStage, effects: Effects) -> Rollout:
    """As `apply_commit`, and store which versions are held from now on."""
    rollout = apply_commit(txn, command, effects)
    txn.held_versions.delete_all(command.unhold)
    _hold(txn, command.hold)
    return rollout


def _hold(txn: WriteTxn, held: list[HeldVersion]) -> None:
    for each in held:
        known = txn.held_versions.get(each.namespace, each.job_id)
        each.create_index = known.create_index if known else txn.index
        each.modify_index = txn.index
    txn.held_versions.put_all(held)


def _commit(commit: str) -> str:
    return f"commit {commit[:12]}" if commit else "no commit"


def move_refs(txn: WriteTxn, command: MoveRefs, effects: Effects) -> None:
    _move_refs(txn, _source(txn, command.source).repository_name, command.moves)


def _move_refs(txn: WriteTxn, repository: str, moves: list[RefMove]) -> None:
    for move in moves:
        known = txn.git_refs.get(repository, move.ref)
        if (known.object_id if known else "") != move.old:
            raise ConflictError(
                f"cannot move {move.ref} of {repository!r} to {move.new[:12] or 'nothing'}: it "
                "moved meanwhile; fetch first"
            )
        if not move.new:
            txn.git_refs.delete(repository, move.ref)
            continue
        created = known.create_index if known else txn.index
        txn.git_refs.put(GitRef(repository, move.ref, move.new, created, txn.index))


def record_gates(txn: WriteTxn, command: RecordGates, effects: Effects) -> Rollout:
    rollout = command.rollout
    source = _source(txn, rollout.source)
    if source.status.applied_commit != command.expected_commit:
        raise ConflictError(
            f"cannot record what commit {rollout.commit.id[:12]} waits for: "
            f"{_commit(source.status.applied_commit)} of source {source.name!r} is applied now"
        )
    _check_waits(txn, rollout, command.expected_modify_index)
    _move_refs(txn, source.repository_name, command.ref_moves)
    why = f"superseded by commit {rollout.commit.id[:8]}"
    _end_waiting(txn, source.name, command.now_ns, why, effects, rollout.id)
    _store_rollout(txn, rollout, effects)
    source.status.seen_commit = rollout.commit.id
    source.status.last_error, source.status.error_kind = "", SourceErrorKind.NONE
    source.status.error_since_ns = 0
    if rollout.status == RolloutStatus.REJECTED:
        known = [each for each in source.status.quarantined if each != rollout.commit.id]
        source.status.quarantined = [*known, rollout.commit.id]
    _store_source(txn, source, effects)
    return rollout


def _check_waits(txn: WriteTxn, rollout: Rollout, expected_modify_index: int) -> None:
    """Raise ConflictError unless the record of the rollout is the expected one, and waits; index 0
    stands for no record."""
    known = txn.rollouts.get(rollout.id)
    if (known.modify_index if known is not None else 0) != expected_modify_index:
        raise ConflictError(
            f"cannot go on with rollout {rollout.id[:8]}: its record was changed meanwhile"
        )
    if known is not None and not known.is_waiting:
        raise ConflictError(f"cannot go on with rollout {rollout.id[:8]}: it is {known.status}")


def _end_waiting(
    txn: WriteTxn, source: str, now_ns: int, why: str, effects: Effects, kept: str = ""
) -> None:
    """End the rollouts of a source that wait at their gates, but for the rollout `kept`."""
    for rollout in txn.rollouts.waiting(source):
        if rollout.id != kept:
            rollout.status = RolloutStatus.SUPERSEDED
            rollout.status_description = why
            rollout.finished_time_ns = now_ns
            _store_rollout(txn, rollout, effects)


def record_rollout(
    txn: WriteTxn, command: RecordRollout | RecordProgress, effects: Effects
) -> None:
    if isinstance(command, RecordProgress):
        _check_current(txn, command.rollout, command.expected_modify_index)
    _store_rollout(txn, command.rollout, effects)


def record_progress(txn: WriteTxn, command: RecordProgress, effects: Effects) -> None:
    """As `record_rollout`, and hold the versions that failed, unless a later rollout replaced
    them. A rollout that was reverted stays reverted."""
    known = txn.rollouts.place(command.rollout.id)
    if known is not None and known.status == RolloutStatus.REVERTED != command.rollout.status:
        return
    record_rollout(txn, command, effects)
    if command.hold and txn.sources.get(command.rollout.source) is not None:
        applied = txn.rollouts.applied_after(command.rollout)
        later = {(job.namespace, job.job_id) for rollout in applied for job in rollout.jobs}
        _hold(txn, [each for each in command.hold if each.key not in later])


def _check_current(txn: WriteTxn, rollout: Rollout, expected_index: int) -> None:
    """Raise ConflictError if the rollout is recorded with another index than this; 0: any."""
    known = txn.rollouts.place(rollout.id)
    if expected_index and (known is None or known.modify_index != expected_index):
        raise ConflictError(
            f"cannot record rollout {rollout.id[:8]}: it was recorded by another writer meanwhile"
        )


def _store_rollout(
    txn: WriteTxn, rollout: Rollout, effects: Effects, is_applied_now: bool = False
) -> None:
    """Store a rollout. One that waited has its place in the history where it was applied."""
    known = txn.rollouts.place(rollout.id)
    has_place = known is not None and not (is_applied_now and known.is_waiting)
    rollout.create_index = known.create_index if known is not None and has_place else txn.index
    rollout.modify_index = txn.index
    txn.rollouts.put(rollout)
    effects.note(txn.index, "RolloutUpdated", rollout)


def upsert_source(
    txn: WriteTxn, command: UpsertSource | PutSource | DefineSource, effects: Effects
) -> Source:
    known = txn.sources.get(command.source.name)
    status = known.status if known else SourceStatus()
    create_index = known.create_index if known else txn.index
    source = msgspec.structs.replace(command.source, status=status, create_index=create_index)
    _store_source(txn, source, effects)
    return source


def store_source(
    txn: WriteTxn, command: StoreSource | PutSource | DefineSource, effects: Effects
) -> Source:
    wanted, known = command.source, txn.sources.get(command.source.name)
    if known is None and command.expected_modify_index:
        raise NotFoundError(
            f"cannot change source {wanted.name!r}: it was removed; `orchgit source add` makes it"
        )
    if known is not None and not command.expected_modify_index:
        raise ConflictError(
            f"cannot add source {wanted.name!r}: there is one of that name; `orchgit source set "
            f"{wanted.name}` changes it"
        )
    if known is not None and known.modify_index != command.expected_modify_index:
        raise ConflictError(f"cannot change source {wanted.name!r}: it was changed meanwhile")
    if known is not None and known.kind != wanted.kind:
        raise RefusedError(f"cannot change source {wanted.name!r}: its kind is {known.kind}")
    status = known.status if known else SourceStatus(remembers_jobs=True)
    create_index = known.create_index if known else txn.index
    source = msgspec.structs.replace(wanted, status=status, create_index=create_index)
    _store_source(txn, source, effects)
    return source


def put_source(txn: WriteTxn, command: PutSource | DefineSource, effects: Effects) -> Source:
    _check_repository(txn, command.source)
    if command.expected_modify_index is None:
        return upsert_source(txn, command, effects)
    return store_source(txn, command, effects)


def _check_repository(txn: WriteTxn, wanted: Source) -> None:
    """Refuse another repository than before, and one whose mirror is that of a source of another
    kind: what was fetched for that source must not be served."""
    known = txn.sources.get(wanted.name)
    if known is not None and known.repository_name != wanted.repository_name:
        raise RefusedError(
            f"cannot change source {wanted.name!r}: its repository is {known.repository_name!r}; "
            "add another source with -adopt, and remove this one"
        )
    for other in txn.sources.of_repository(wanted.repository_name):
        is_shared = SourceKind.BUILTIN == wanted.kind == other.kind
        if other.name != wanted.name and not is_shared:
            raise RefusedError(
                f"cannot store source {wanted.name!r}: {wanted.repository_name!r} is the "
                f"repository of source {other.name!r}, and only built-in sources share one"
            )


def remove_source(txn: WriteTxn, command: RemoveSource, effects: Effects) -> None:
    """The rollouts of the source stay as history, and so does a built-in repository."""
    source = _source(txn, command.name)
    deleted = [delete_job(txn, deletion, effects) for deletion in command.deletions]
    results = {(result.namespace, result.job_id): result for result in deleted}
    for evaluation in command.evaluations:
        for_job(evaluation, results[evaluation.namespace, evaluation.job_id])
    store_evaluations(txn, command.evaluations, effects)
    for namespace, job_id in txn.jobs.keys_of_source(source.name):
        _set_owner(txn, namespace, job_id, "", former_source=source.name)
    applied = txn.applied_jobs.of_source(source.name)
    held = txn.held_versions.known_of_source(source.name)
    if command.stop:
        txn.applied_jobs.delete_all([(each.namespace, each.job_id) for each in applied])
        txn.held_versions.delete_all([each.key for each in held])
    else:
        txn.held_versions.put_all(
            [msgspec.structs.replace(each, source="", modify_index=txn.index) for each in held]
        )
        txn.applied_jobs.put_all(
            [msgspec.structs.replace(each, source="", modify_index=txn.index) for each in applied]
        )
    _end_waiting(txn, source.name, command.now_ns, "its source was removed", effects)
    txn.sources.delete(source.name)
    txn.source_health.delete(source.name)
    effects.note(txn.index, "SourceDeleted", source)


def set_job_owner(txn: WriteTxn, command: SetJobOwner, effects: Effects) -> None:
    job = txn.jobs.get(command.namespace, command.job_id)
    if job is None or owner_of(job) != command.expected_source:
        raise ConflictError(
            f"cannot change the source of job {command.job_id!r}: it was changed meanwhile; read "
            "the job again"
        )
    _set_owner(
        txn,
        command.namespace,
        command.job_id,
        command.source,
        released_from=command.released_from,
    )


def _set_owner(
    txn: WriteTxn,
    namespace: str,
    job_id: str,
    source: str,
    *,
    released_from: str = "",
    former_source: str = "",
) -> None:
    """Set the owner of the job without a new version: its spec is the same."""
    job = txn.jobs.get(namespace, job_id)
    assert job is not None
    origin = msgspec.structs.replace(
        job.origin or JobOrigin(),
        source=source,
        released_from=released_from,
        former_source=former_source,
    )
    txn.jobs.put(msgspec.structs.replace(job, origin=origin, modify_index=txn.index))


def update_source_status(
    txn: WriteTxn, command: UpdateSourceStatus | SetSourceStatus, effects: Effects
) -> None:
    source = _source(txn, command.name)
    source.status = msgspec.structs.replace(
        command.status,
        applied_commit=source.status.applied_commit,
        applied_rollout=source.status.applied_rollout,
        remembers_jobs=source.status.remembers_jobs,
    )
    _store_source(txn, source, effects)


def delete_source(txn: WriteTxn, command: DeleteSource, effects: Effects) -> None:
    """The jobs of the source keep running; its rollouts stay as history. A built-in repository
    stays too: a new source of that name finds it again."""
    source = _source(txn, command.name)
    txn.sources.delete(source.name)
    txn.source_health.delete(source.name)
    effects.note(txn.index, "SourceDeleted", source)


def record_source_health(txn: WriteTxn, command: RecordSourceHealth, effects: Effects) -> None:
    for change in command.changes:
        source, known = txn.sources.get(change.source), txn.source_health.get(change.source)
        if source is None or (known is not None and known.status == change.status):
            continue
        change.namespace = source.namespace or "default"
        change.before = known.status if known is not None else ""
        change.since_ns = command.now_ns
        change.create_index = known.create_index if known is not None else txn.index
        change.modify_index = txn.index
        txn.source_health.put(change)
        effects.note(txn.index, "SourceHealthChanged", change)


def delete_rollouts(txn: WriteTxn, command: DeleteRollouts, effects: Effects) -> None:
    txn.rollouts.delete_all(command.ids)


def _source(txn: WriteTxn, name: str) -> Source:
    source = txn.sources.get(name)
    if source is None:
        raise NotFoundError(f"cannot find source {name!r}: `orchgit source list` shows those known")
    return source


def _store_source(txn: WriteTxn, source: Source, effects: Effects) -> None:
    source.modify_index = txn.index
    txn.sources.put(source)
    effects.note(txn.index, "SourceUpdated", source)


HANDLERS: Handlers = {
    ApplyRollout: apply_rollout,
    ApplyCommit: apply_commit,
    MoveRefs: move_refs,
    RecordRollout: record_rollout,
    UpsertSource: upsert_source,
    StoreSource: store_source,
    PutSource: put_source,
    DefineSource: put_source,
    SetSourceStatus: update_source_status,
    ApplyStage: apply_stage,
    RecordProgress: record_progress,
    RecordSourceHealth: record_source_health,
    RecordGates: record_gates,
    RemoveSource: remove_source,
    RenameSource: rename_source,
    SetJobOwner: set_job_owner,
    UpdateSourceStatus: update_source_status,
    DeleteSource: delete_source,
    DeleteRollouts: delete_rollouts,
}
