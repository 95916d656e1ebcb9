"""Why the scheduler found no place for a group, as text. Pure."""

from __future__ import annotations

from orchgit.model.evaluation import AllocMetric
from orchgit.model.group import TaskGroup

_SHOWN = 3


def placement_reasons(metric: AllocMetric, group: TaskGroup | None) -> list[str]:
    """Returns at most three reasons, those that rule out most nodes first. `group` is the one
    without a place."""
    if not metric.nodes_evaluated:
        return ["no node is eligible"]
    filtered = metric.constraint_filtered or {}
    exhausted = metric.dimension_exhausted or {}
    counted = [(count, _filtered(name, group)) for name, count in filtered.items()]
    counted += [(count, f"{name} exhausted") for name, count in exhausted.items()]
    counted.sort(key=lambda pair: -pair[0])
    return [f"{text} on {count} node{'s' * (count != 1)}" for count, text in counted[:_SHOWN]]


def _filtered(name: str, group: TaskGroup | None) -> str:
    if name != "missing drivers" or group is None:
        return name
    drivers = sorted({task.driver for task in group.tasks})
    return f"missing driver{'s' * (len(drivers) != 1)} {', '.join(drivers)}"
