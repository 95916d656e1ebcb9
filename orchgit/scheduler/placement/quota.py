"""What a namespace's quota leaves for a plan, and what a placement that exceeds it is told."""

from __future__ import annotations

from orchgit.model.allocation import Allocation
from orchgit.model.quota import QuotaAmounts, QuotaRoom, amounts_of
from orchgit.scheduler.ranking.required_resources import RequiredResources


class QuotaUse:
    """Follows what a plan takes of the room and gives back."""

    def __init__(self, room: QuotaRoom) -> None:
        self.name = room.name
        self._left = dict(room.left)

    def exceeded_by(self, ask: RequiredResources) -> list[str]:
        """The dimensions that one more would exceed, as explanations name them."""
        wanted = ask.quota_amounts.by_name()
        return [
            f"{name} exhausted ({wanted[name]} needed > {left} left)"
            for name, left in self._left.items()
            if wanted[name] > max(0, left)
        ]

    def take(self, ask: RequiredResources, times: int = 1) -> None:
        self._add(ask.quota_amounts, -times)

    def give_back(self, allocation: Allocation, times: int = 1) -> None:
        """The plan ends it (or, with -1, does not after all)."""
        if allocation.allocated_resources is not None and not allocation.is_terminal:
            self._add(amounts_of(allocation.allocated_resources), times)

    def _add(self, amounts: QuotaAmounts, times: int) -> None:
        for name, amount in amounts.by_name().items():
            if name in self._left:
                self._left[name] += amount * times
