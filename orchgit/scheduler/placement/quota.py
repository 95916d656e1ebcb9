"""What a namespace's quota leaves for a plan, and what a placement that exceeds it is told.

The state knows no quotas yet (`SnapshotView.quota` says so); everything from here to the blocked
evaluation is the same as with them.
"""

from __future__ import annotations

from orchgit.model.allocation import Allocation
from orchgit.scheduler.ports import QuotaRoom
from orchgit.scheduler.ranking.required_resources import RequiredResources


class QuotaUse:
    """Follows what a plan takes of the room and gives back."""

    def __init__(self, room: QuotaRoom) -> None:
        self.name = room.name
        self._left = {"cpu": room.left_cpu, "memory": room.left_memory_mb}

    def exceeded_by(self, ask: RequiredResources) -> list[str]:
        """The dimensions that one more would exceed, as explanations name them."""
        wanted = {"cpu": ask.cpu, "memory": ask.memory}
        return [
            f"{name} exhausted ({wanted[name]} needed > {left} left)"
            for name, left in self._left.items()
            if left is not None and wanted[name] > left
        ]

    def take(self, ask: RequiredResources, times: int = 1) -> None:
        self._add(-ask.cpu * times, -ask.memory * times)

    def give_back(self, allocation: Allocation, times: int = 1) -> None:
        """The plan ends it (or, with -1, does not after all)."""
        if allocation.allocated_resources is not None and not allocation.is_terminal:
            total = allocation.allocated_resources.total()
            self._add(total.cpu_shares * times, total.memory_mb * times)

    def _add(self, cpu: int, memory_mb: int) -> None:
        for name, more in (("cpu", cpu), ("memory", memory_mb)):
            left = self._left[name]
            if left is not None:
                self._left[name] = left + more
