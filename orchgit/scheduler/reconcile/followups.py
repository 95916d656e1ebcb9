"""Evaluations for later: when a delay has passed or a lost node's time is up."""

from __future__ import annotations

from orchgit.ids import IdSource
from orchgit.model.allocation import Allocation
from orchgit.model.base import NS_PER_S
from orchgit.model.evaluation import EvalStatus, EvalTrigger, Evaluation

_BATCH_NS = 5 * NS_PER_S
DELAYED_RESCHEDULING = "created for delayed rescheduling"
DISCONNECT_TIMEOUT = "created for delayed disconnect timeout"
Later = list[tuple[int, Allocation]]
"""(Unix ns, allocation)"""


class Followups:
    """Makes them, for one evaluation; allocations due within 5 s of each other share one."""

    def __init__(self, evaluation: Evaluation, ids: IdSource, now_ns: int) -> None:
        self._evaluation = evaluation
        self._ids = ids
        self._now_ns = now_ns
        self.made: list[Evaluation] = []

    def reschedule(self, later: Later) -> dict[str, str]:
        """For failed allocations: allocation id -> evaluation id."""
        first = (EvalTrigger.ALLOC_RESCHEDULE, DELAYED_RESCHEDULING)
        return self._batch(later, first, (EvalTrigger.RETRY_FAILED_ALLOC, ""))

    def lost(self, later: Later) -> dict[str, str]:
        """For lost allocations whose agent stops them by itself after a while."""
        kind = (EvalTrigger.RETRY_FAILED_ALLOC, DELAYED_RESCHEDULING)
        return self._batch(later, kind, kind)

    def disconnect_timeout(self, later: Later) -> dict[str, str]:
        """For unknown allocations that will be given up."""
        kind = (EvalTrigger.MAX_DISCONNECT_TIMEOUT, DISCONNECT_TIMEOUT)
        return self._batch(later, kind, kind)

    def _batch(
        self, later: Later, first: tuple[str, str], others: tuple[str, str]
    ) -> dict[str, str]:
        ids: dict[str, str] = {}
        start_ns, current = 0, None
        for at_ns, allocation in sorted(later, key=lambda entry: (entry[0], entry[1].id)):
            if current is None or at_ns - start_ns >= _BATCH_NS:
                current = self._new(at_ns, *(first if current is None else others))
                start_ns = at_ns
            ids[allocation.id] = current.id
        return ids

    def _new(self, at_ns: int, trigger: str, description: str) -> Evaluation:
        evaluation = self._evaluation
        made = Evaluation(
            id=self._ids.new(),
            namespace=evaluation.namespace,
            priority=evaluation.priority,
            type=evaluation.type,
            triggered_by=trigger,
            job_id=evaluation.job_id,
            job_modify_index=evaluation.job_modify_index,
            status=EvalStatus.PENDING,
            status_description=description,
            wait_until=at_ns,
            previous_eval=evaluation.id,
            rollout_id=evaluation.rollout_id,
            create_time_ns=self._now_ns,
            modify_time_ns=self._now_ns,
        )
        self.made.append(made)
        return made
