"""Counts of the plan applier, for metrics."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


@dataclass(slots=True)
class PlanDurations:
    """A histogram of durations in seconds; the last count has those beyond all bounds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    total_s: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds


@dataclass(slots=True)
class PlanCounts:
    """What happened to plans since this server leads."""

    evaluate: PlanDurations = field(default_factory=PlanDurations)
    """Checking a plan, with the wait for plans in flight that it may need."""
    commit: PlanDurations = field(default_factory=PlanDurations)
    """From the proposal until the plan is committed."""
    rejected_nodes: int = 0
    """Nodes for which a plan was rejected; one counts as often as it happens."""
