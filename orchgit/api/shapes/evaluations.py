"""Evaluations as Nomad shows them: with what others say, and without what is unset there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from orchgit.model.evaluation import EvalStatus, EvalTrigger, Evaluation
from orchgit.state.snapshot import Snapshot

_FOLLOW_UPS = frozenset(
    (
        EvalTrigger.ALLOC_RESCHEDULE,
        EvalTrigger.MAX_DISCONNECT_TIMEOUT,
        EvalTrigger.FAILED_FOLLOW_UP,
        EvalTrigger.ROLLING_UPDATE,
    )
)
_WITHOUT_JOB_INDEX = frozenset(
    (
        EvalTrigger.RETRY_FAILED_ALLOC,
        EvalTrigger.DEPLOYMENT_WATCHER,
        EvalTrigger.NODE_UPDATE,
        EvalTrigger.NODE_DRAIN,
        EvalTrigger.PREEMPTION,
    )
)
"""What makes an evaluation without looking at the job."""


def shown_evaluations(
    snapshot: Snapshot, chosen: Iterable[Evaluation], known: Sequence[Evaluation]
) -> list[Evaluation]:
    """Returns `chosen` as answers show them; `known` has the evaluations that follow from these.

    A blocked evaluation gets why the one before it could not place everything; a decided one gets
    the one that looks at the job again later.
    """
    follow_ups = {each.previous_eval: each.id for each in known if each.triggered_by in _FOLLOW_UPS}
    return [_shown(snapshot, each, follow_ups.get(each.id, "")) for each in chosen]


def _shown(snapshot: Snapshot, each: Evaluation, follow_up: str) -> Evaluation:
    hides_index = each.triggered_by in _WITHOUT_JOB_INDEX and each.job_modify_index
    is_blocked = each.status == EvalStatus.BLOCKED
    if not (is_blocked or hides_index or follow_up):
        return each
    before = None
    if is_blocked and not each.failed_tg_allocs:
        before = snapshot.evaluations.get(each.previous_eval)
    return replace(
        each,
        job_modify_index=0 if hides_index else each.job_modify_index,
        next_eval=each.next_eval or follow_up,
        queued_allocations=None if is_blocked else each.queued_allocations,
        failed_tg_allocs=before.failed_tg_allocs if before else each.failed_tg_allocs,
    )
