"""Sources and rollouts: a commit's jobs in one entry, whole or not at all (invariant 9)."""

from __future__ import annotations

import msgspec

from orchgit.errors import ConflictError, NotFoundError
from orchgit.model.rollout import Rollout
from orchgit.model.source import GitRef, Source, SourceStatus
from orchgit.replication.apply.evaluations import store_evaluations
from orchgit.replication.apply.jobs import JobResult, delete_job, for_job, upsert_job
from orchgit.replication.commands import (
    ApplyRollout,
    DeleteRollouts,
    DeleteSource,
    MoveRefs,
    RecordRollout,
    RefMove,
    UpdateSourceStatus,
    UpsertSource,
)
from orchgit.replication.events import Effects
from orchgit.state.transaction import WriteTxn

JobKey = tuple[str, str]


def apply_rollout(txn: WriteTxn, command: ApplyRollout, effects: Effects) -> Rollout:
    """Upserts before deletions; the source's applied commit moves with them, and only here."""
    source = _source(txn, command.rollout.source)
    if source.status.applied_commit != command.expected_commit:
        raise ConflictError(
            f"cannot apply commit {command.rollout.commit.id[:12]} of source {source.name!r}: it "
            f"was planned on {_commit(command.expected_commit)}, but "
            f"{_commit(source.status.applied_commit)} is applied now; plan it again"
        )
    _move_refs(txn, source.name, command.ref_moves)
    upserted = [upsert_job(txn, upsert, effects) for upsert in command.upserts]
    deleted = [delete_job(txn, deletion, effects) for deletion in command.deletions]
    results = {(result.namespace, result.job_id): result for result in upserted + deleted}
    for evaluation in command.evaluations:
        result = results.get((evaluation.namespace, evaluation.job_id))
        if result is not None:
            for_job(evaluation, result)
    store_evaluations(txn, command.evaluations, effects)
    _record_results(command.rollout, results)
    _store_rollout(txn, command.rollout, effects)
    _move(txn, source, command.rollout, effects)
    return command.rollout


def _commit(commit: str) -> str:
    return f"commit {commit[:12]}" if commit else "no commit"


def _record_results(rollout: Rollout, results: dict[JobKey, JobResult]) -> None:
    for job in rollout.jobs:
        result = results.get((job.namespace, job.job_id))
        if result is not None:
            job.job_version = result.version


def _move(txn: WriteTxn, source: Source, rollout: Rollout, effects: Effects) -> None:
    source.status.applied_commit = rollout.commit.id
    source.status.applied_rollout = rollout.id
    source.status.seen_commit = rollout.commit.id
    source.status.last_error = ""
    _store_source(txn, source, effects)


def move_refs(txn: WriteTxn, command: MoveRefs, effects: Effects) -> None:
    _move_refs(txn, _source(txn, command.source).name, command.moves)


def _move_refs(txn: WriteTxn, source: str, moves: list[RefMove]) -> None:
    for move in moves:
        known = txn.git_ref(source, move.ref)
        if (known.object_id if known else "") != move.old:
            raise ConflictError(
                f"cannot move {move.ref} of {source!r} to {move.new[:12] or 'nothing'}: it moved "
                "meanwhile; fetch first"
            )
        if not move.new:
            txn.delete_git_ref(source, move.ref)
            continue
        created = known.create_index if known else txn.index
        txn.put_git_ref(GitRef(source, move.ref, move.new, created, txn.index))


def record_rollout(txn: WriteTxn, command: RecordRollout, effects: Effects) -> None:
    _store_rollout(txn, command.rollout, effects)


def _store_rollout(txn: WriteTxn, rollout: Rollout, effects: Effects) -> None:
    known = txn.rollout(rollout.id)
    rollout.create_index = known.create_index if known else txn.index
    rollout.modify_index = txn.index
    txn.put_rollout(rollout)
    effects.note(txn.index, "RolloutUpdated", rollout)


def upsert_source(txn: WriteTxn, command: UpsertSource, effects: Effects) -> Source:
    known = txn.source(command.source.name)
    status = known.status if known else SourceStatus()
    create_index = known.create_index if known else txn.index
    source = msgspec.structs.replace(command.source, status=status, create_index=create_index)
    _store_source(txn, source, effects)
    return source


def update_source_status(txn: WriteTxn, command: UpdateSourceStatus, effects: Effects) -> None:
    source = _source(txn, command.name)
    source.status = msgspec.structs.replace(
        command.status,
        applied_commit=source.status.applied_commit,
        applied_rollout=source.status.applied_rollout,
    )
    _store_source(txn, source, effects)


def delete_source(txn: WriteTxn, command: DeleteSource, effects: Effects) -> None:
    """Its jobs keep running; its rollouts stay as history, and so does a built-in repository: a
    source of that name finds it again."""
    source = _source(txn, command.name)
    txn.delete_source(source.name)
    effects.note(txn.index, "SourceDeleted", source)


def delete_rollouts(txn: WriteTxn, command: DeleteRollouts, effects: Effects) -> None:
    txn.delete_rollouts(command.ids)


def _source(txn: WriteTxn, name: str) -> Source:
    source = txn.source(name)
    if source is None:
        raise NotFoundError(f"cannot find source {name!r}: `orchgit source list` shows those known")
    return source


def _store_source(txn: WriteTxn, source: Source, effects: Effects) -> None:
    source.modify_index = txn.index
    txn.put_source(source)
    effects.note(txn.index, "SourceUpdated", source)
