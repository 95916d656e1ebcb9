"""Counts of the plan applier, for metrics."""

from __future__ import annotations

from dataclasses import dataclass, field

from orchgit.metrics.durations import MeasuredTimes


@dataclass(slots=True)
class PlanCounts:
    """What happened to plans since this server leads."""

    queued: MeasuredTimes = field(default_factory=MeasuredTimes)
    """From the submission until the plan's turn."""
    submit: MeasuredTimes = field(default_factory=MeasuredTimes)
    """From the submission until the answer."""
    evaluate: MeasuredTimes = field(default_factory=MeasuredTimes)
    """Checking a plan, with the wait for plans in flight that it may need."""
    commit: MeasuredTimes = field(default_factory=MeasuredTimes)
    """From the proposal until the plan is committed."""
    rejected_nodes: int = 0
    """Nodes for which a plan was rejected; one counts as often as it happens."""
