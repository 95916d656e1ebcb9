"""Storing evaluations, and deleting old ones with their allocations."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.evaluation import EvalStatus, Evaluation
from orchgit.replication.apply.handler import Handlers
from orchgit.replication.commands.evaluations import DeleteEvaluations, UpsertEvaluations
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
    """Store the evaluations at this index, with all that follows for their jobs.

    `type_` is the type of their events, which are named after what created the evaluations.
    """
    if not evaluations:
        return
    stored = [*evaluations]
    for evaluation in evaluations:
        evaluation.modify_index = txn.index
        evaluation.modify_time_ns = txn.now_ns or evaluation.modify_time_ns
        stored += _cancelled_by(txn, evaluation)
        txn.job_statuses.touch(evaluation.namespace, evaluation.job_id)
        if evaluation.queued_allocations is not None:
            queued = evaluation.queued_allocations
            txn.job_summaries.set_queued(evaluation.namespace, evaluation.job_id, queued)
    txn.evaluations.put_all(stored)
    effects.note_evaluations(txn.index, type_, stored)


def _cancelled_by(txn: WriteTxn, evaluation: Evaluation) -> list[Evaluation]:
    """Returns the job's blocked evaluations, cancelled, if this one placed everything."""
    if evaluation.status != EvalStatus.COMPLETE or evaluation.failed_tg_allocs:
        return []
    blocked = txn.evaluations.blocked_of_job(evaluation.namespace, evaluation.job_id)
    cancelled = [one for one in blocked if one.id != evaluation.id]
    for one in cancelled:
        one.status = EvalStatus.CANCELLED
        one.status_description = f"evaluation {evaluation.id!r} successful"
        one.modify_index, one.modify_time_ns = txn.index, txn.now_ns
    return cancelled


def delete_evaluations(txn: WriteTxn, command: DeleteEvaluations, effects: Effects) -> None:
    for eval_id in command.eval_ids:
        known = txn.evaluations.get(eval_id)
        if known is not None:
            txn.job_statuses.touch(known.namespace, known.job_id, evaluations_purged=True)
    txn.evaluations.delete_all(command.eval_ids)
    jobs = {
        (record.namespace, record.job_id)
        for record in txn.allocations.delete_all(command.alloc_ids)
    }
    for namespace, job_id in sorted(jobs):
        txn.job_statuses.touch(namespace, job_id, evaluations_purged=True)
        txn.job_versions.delete_unreferenced(namespace, job_id)


HANDLERS: Handlers = {
    UpsertEvaluations: upsert_evaluations,
    DeleteEvaluations: delete_evaluations,
}
