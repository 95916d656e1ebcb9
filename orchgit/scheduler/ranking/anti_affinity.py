"""Allocations of one group keep away from each other, as long as nothing else speaks for it."""

from __future__ import annotations

from collections.abc import Mapping, Set


class AntiAffinity:
    """Scores a node by how many of the group are there, those of namesakes included: jobs of the
    same id in other namespaces count as the same."""

    def __init__(
        self, live: Mapping[int, int], namesakes: Mapping[int, int], group_count: int
    ) -> None:
        """Row -> allocations; `live` follows what the plan does."""
        self._live = live
        self._namesakes = namesakes
        self._group_count = max(group_count, 1)

    def score(self, row: int) -> float:
        """0: none of the group is there."""
        count = self._live.get(row, 0)
        if self._namesakes:
            count += self._namesakes.get(row, 0)
        return -(count + 1) / self._group_count if count > 0 else 0.0

    def rows(self) -> Set[int]:
        """The rows that may have another score than 0."""
        return self._live.keys() | self._namesakes.keys()
