"""The usage of each node, cached between plans by the plan applier.

Usage grows only by plans, and all plans pass the one applier, which records what it commits: a
cached usage is never too low. It is too high when an allocation has ended by itself; that is
harmless, because the applier drops the usage of rejected nodes and checks once more before it
rejects a plan.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from orchgit.control.plans.check import PlanView, ReadUsage
from orchgit.control.plans.node_usage import NodeUsage
from orchgit.model.node import Node


class NodeUsageCache:
    """A usage source that caches the usage of each node."""

    def __init__(self) -> None:
        self._usages: dict[str, NodeUsage] = {}
        self._read = ReadUsage()

    def __contains__(self, node_id: str) -> bool:
        return node_id in self._usages

    def usage(self, node: Node, view: PlanView) -> NodeUsage:
        known = self._usages.get(node.id)
        if known is None:
            known = self._usages[node.id] = self._read.usage(node, view)
        return known

    def record(self, usages: Mapping[str, NodeUsage]) -> None:
        """Stores the usage of these nodes after plans that are committed or in flight."""
        self._usages.update(usages)

    def forget(self, node_ids: Collection[str]) -> bool:
        """Drops the usage of these nodes; returns whether any was cached."""
        return any([self._usages.pop(node_id, None) is not None for node_id in node_ids])
