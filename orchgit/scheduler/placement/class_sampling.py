"""What a placement that succeeds tells about the classes of nodes, for explanations that follow."""

from __future__ import annotations

import numpy as np

from orchgit.model.job import JobType
from orchgit.scheduler.placement.stack import GroupStack, Stacks
from orchgit.scheduler.ranking.selector import Request, Selector

_LEAST_SAMPLE, _NODE_LIMIT, _POOR_SKIPPED = 2, 100, 3


class ClassSampling:
    """Once a class was looked at, an explanation says no more of it than that it is ineligible, as
    Nomad's do. A scheduler that samples looks at all nodes where it does not find enough of them
    to choose from; only then it is certain what it has looked at."""

    def __init__(self, stacks: Stacks, eval_type: str) -> None:
        self._stacks = stacks
        self._eval_type = eval_type
        self._known: set[str] = set()

    def placed(self, stack: GroupStack, selector: Selector, request: Request) -> None:
        """A node was found for `request`; nothing of it is taken yet."""
        candidates, name = self._stacks.candidates, stack.group.name
        if name in self._known or len(selector.rows) == len(candidates.rows):
            return
        scores = selector.scores(request.penalty_rows)
        if selector.ranking.row_checks:
            rows = selector.rows.tolist()
            scores[[bool(selector.refusal(row, request.name)) for row in rows]] = -np.inf
        good = int((scores > 0).sum())
        poor = int((scores > -np.inf).sum()) - good
        if good + max(poor - _POOR_SKIPPED, 0) < self._sample_size(stack, selector):
            self._known.add(name)
            self._stacks.eligibility.filter(candidates.rows, name, stack.checks)

    def _sample_size(self, stack: GroupStack, selector: Selector) -> int:
        """How many nodes to choose from are enough; a few that score 0 or less do not count."""
        ranking = selector.ranking
        if ranking.affinity is not None or ranking.spread is not None:
            config = self._stacks.view.scheduler_config()
            return max(stack.group.count, config.node_limit_for_feasibility_checks or _NODE_LIMIT)
        if self._eval_type == JobType.BATCH:
            return _LEAST_SAMPLE
        nodes = len(self._stacks.candidates.rows)
        return max(_LEAST_SAMPLE, (nodes - 1).bit_length())
