"""Why the scheduler found no place for a group, as text. Pure."""

from __future__ import annotations

from orchgit.model.evaluation import AllocMetric
from orchgit.model.group import TaskGroup
from orchgit.services.jobs.fit import ruled_out

_SHOWN = 3


def placement_reasons(metric: AllocMetric, group: TaskGroup | None) -> list[str]:
    """Returns at most three reasons, those that rule out most nodes first. `group` is the one
    without a place."""
    return [each.text for each in ruled_out(metric, group)[:_SHOWN]]
