"""Storing evaluations, and forgetting old ones with their allocations."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.evaluation import EvalStatus, Evaluation
from orchgit.replication.commands import DeleteEvaluations, UpsertEvaluations
from orchgit.replication.events import Effects
from orchgit.state.transaction import WriteTxn


def upsert_evaluations(txn: WriteTxn, command: UpsertEvaluations, effects: Effects) -> None:
    store_evaluations(txn, command.evaluations, effects)


def store_evaluations(
    txn: WriteTxn,
    evaluations: Sequence[Evaluation],
    effects: Effects,
    type_: str = "EvaluationUpdated",
) -> None:
    """Store them at this index, with all that follows for their jobs; `type_`: of their events,
    which are named after what made the evaluations."""
    if not evaluations:
        return
    stored = [*evaluations]
    for evaluation in evaluations:
        evaluation.modify_index = txn.index
        evaluation.modify_time_ns = txn.now_ns or evaluation.modify_time_ns
        stored += _cancelled_by(txn, evaluation)
        txn.touch_job(evaluation.namespace, evaluation.job_id)
        if evaluation.queued_allocations is not None:
            queued = evaluation.queued_allocations
            txn.set_queued(evaluation.namespace, evaluation.job_id, queued)
    txn.put_evaluations(stored)
    effects.note_evaluations(txn.index, type_, stored)


def _cancelled_by(txn: WriteTxn, evaluation: Evaluation) -> list[Evaluation]:
    """An evaluation that placed everything makes the job's blocked ones needless."""
    if evaluation.status != EvalStatus.COMPLETE or evaluation.failed_tg_allocs:
        return []
    blocked = txn.blocked_evaluations(evaluation.namespace, evaluation.job_id)
    cancelled = [one for one in blocked if one.id != evaluation.id]
    for one in cancelled:
        one.status = EvalStatus.CANCELLED
        one.status_description = f"evaluation {evaluation.id!r} successful"
        one.modify_index, one.modify_time_ns = txn.index, txn.now_ns
    return cancelled


def delete_evaluations(txn: WriteTxn, command: DeleteEvaluations, effects: Effects) -> None:
    for eval_id in command.eval_ids:
        known = txn.evaluation(eval_id)
        if known is not None:
            txn.touch_job(known.namespace, known.job_id, purged_evals=True)
    txn.delete_evaluations(command.eval_ids)
    jobs = {
        (record.namespace, record.job_id) for record in txn.delete_allocations(command.alloc_ids)
    }
    for namespace, job_id in sorted(jobs):
        txn.touch_job(namespace, job_id, purged_evals=True)
        txn.sweep_job_versions(namespace, job_id)
