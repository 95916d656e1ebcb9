"""One group of a system job while it is placed: what is wanted where, and what is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from orchgit.model.allocation import Allocation
from orchgit.model.evaluation import AllocMetric
from orchgit.model.group import TaskGroup
from orchgit.model.node import Node
from orchgit.scheduler.reconcile.system import GroupDiff, Missing
from orchgit.scheduler.reconcile.system_deployment import UpdateAllowance


@dataclass(slots=True)
class GroupRun:
    """One group's part of the evaluation."""

    group: TaskGroup
    diff: GroupDiff
    wanted: list[Missing] = field(default_factory=list)
    updates: list[Allocation] = field(default_factory=list)
    filtered: list[tuple[Node, str]] = field(default_factory=list)
    """Nodes that lack an allocation and do not pass the checks, with the reason."""
    refused: int = 0
    """How many of `wanted` those placed before them keep away."""
    staying: int = 0
    rolling: UpdateAllowance = field(default_factory=lambda: UpdateAllowance(0))


def all_filtered(filtered: Sequence[tuple[Node, str]]) -> AllocMetric:
    """No node passes the checks: told as a failed placement, though nothing waits."""
    classes = Counter(node.node_class for node, _ in filtered if node.node_class)
    return AllocMetric(
        nodes_evaluated=len(filtered),
        nodes_filtered=len(filtered),
        constraint_filtered=dict(Counter(reason for _, reason in filtered)),
        class_filtered=dict(classes) or None,
    )
