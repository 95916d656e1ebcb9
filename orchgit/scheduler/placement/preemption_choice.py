"""Which node to make room on, for the placements of one evaluation, where preemption is on."""

from __future__ import annotations

from functools import cached_property

from orchgit.model.allocation import Allocation
from orchgit.scheduler.placement.preemption import Eviction, Preemptor
from orchgit.scheduler.placement.stack import Stacks
from orchgit.scheduler.ranking.selector import Choice, Request, Selector


class PreemptionChoice:
    """Finds none where preemption is off for jobs of this type."""

    def __init__(self, stacks: Stacks) -> None:
        self._stacks = stacks
        self._priorities: dict[tuple[str, str, int], int] = {}

    def choose(
        self, selector: Selector, request: Request
    ) -> tuple[Choice | None, dict[int, Eviction]]:
        """(the node where evicting others hurts least, the evictions that help, by row)"""
        options: dict[int, Eviction] = {}
        best: tuple[float, int, int] | None = None
        for row in selector.rows.tolist() if self.is_on else ():
            eviction = self.on(selector, row, request)
            if eviction is None:
                continue
            options[row] = eviction
            score = (
                _score_with(selector, row, request, eviction),
                -self._stacks.tie_break.ties[row],
            )
            if best is None or (*score, row) > best:
                best = (*score, row)
        return (None if best is None else options[best[2]].choice(best[2])), options

    def on(self, selector: Selector, row: int, request: Request) -> Eviction | None:
        """What would have to go on this node; None: nothing that goes would help."""
        if not self.is_on or selector.refusal(row, request.name):
            return None
        stacks = self._stacks
        preemptor = Preemptor(
            stacks.proposed,
            stacks.job.priority,
            self._priority_of,
            stacks.tie_break.rng,
            selector.fill,
        )
        return preemptor.evict_on(row, selector.ask)

    @cached_property
    def is_on(self) -> bool:
        """Whether jobs of this type may evict others."""
        config = self._stacks.view.scheduler_config().preemption_config
        return {
            "service": config.service_scheduler_enabled,
            "batch": config.batch_scheduler_enabled,
            "system": config.system_scheduler_enabled,
            "sysbatch": config.sysbatch_scheduler_enabled,
        }.get(self._stacks.job.type, False)

    def _priority_of(self, allocation: Allocation) -> int:
        key = (allocation.namespace, allocation.job_id, allocation.job_version)
        if key not in self._priorities:
            job = self._stacks.view.job_version(*key)
            self._priorities[key] = job.priority if job is not None else 0
        return self._priorities[key]


def _score_with(selector: Selector, row: int, request: Request, eviction: Eviction) -> float:
    scores = [
        eviction.fit,
        eviction.score,
        *selector.other_scores(row, request, eviction.offer.device_score),
    ]
    return sum(scores) / len(scores)
