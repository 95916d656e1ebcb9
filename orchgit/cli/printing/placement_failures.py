"""Why allocations of groups could not be placed, as an evaluation or a plan tells it."""

from __future__ import annotations

from typing import Any

import click

from orchgit.cli.printing.output import counted, heading


def show_failures(failures: dict[str, dict[str, Any]], title: str = "Failed Placements") -> None:
    """Prints why the groups' allocations could not be placed, and what would help."""
    if not failures:
        return
    heading(title)
    for name, metric in failures.items():
        missed = 1 + metric.get("CoalescedFailures", 0)
        what = counted(missed, "allocation")
        click.echo(f'Task Group "{name}" (failed to place {what}):')
        for line in _reasons(metric):
            click.echo(f"  * {line}")


def _reasons(metric: dict[str, Any]) -> list[str]:
    """Returns one sentence per reason of an AllocMetric."""
    lines = []
    if not metric.get("NodesEvaluated") and not metric.get("NodesInPool"):
        pool = metric.get("NodePool") or "default"
        lines.append(f"No node in pool {pool!r} is ready")
    for datacenter, count in sorted((metric.get("NodesAvailable") or {}).items()):
        if count == 0:
            lines.append(f"No node of datacenter {datacenter!r} is available")
    for constraint, count in sorted((metric.get("ConstraintFiltered") or {}).items()):
        lines.append(f"{constraint}: excluded {counted(count, 'node')}")
    for name, count in sorted((metric.get("ClassFiltered") or {}).items()):
        lines.append(f"Class {name!r}: excluded {counted(count, 'node')}")
    for dimension, count in sorted((metric.get("DimensionExhausted") or {}).items()):
        lines.append(f"{dimension}: exhausted on {counted(count, 'node')}")
    lines.extend(f"Quota reached: {quota}" for quota in metric.get("QuotaExhausted") or [])
    return lines or [f"None of {counted(metric.get('NodesEvaluated', 0), 'node')} fits"]
