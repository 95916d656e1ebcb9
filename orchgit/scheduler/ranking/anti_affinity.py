"""Job anti-affinity: lowers the score of nodes that already run allocations of the group."""

from __future__ import annotations

from collections.abc import Mapping, Set


class AntiAffinity:
    """Scores a node by the number of the group's allocations on it. Jobs with the same id in other
    namespaces count as the same job."""

    def __init__(
        self, live: Mapping[int, int], namesakes: Mapping[int, int], group_count: int
    ) -> None:
        """Takes counts of allocations by row; `live` follows the changes of the plan."""
        self._live = live
        self._namesakes = namesakes
        self._group_count = max(group_count, 1)

    def score(self, row: int) -> float:
        """Returns a penalty below 0, or 0 if no allocation of the group is on the row."""
        count = self._live.get(row, 0)
        if self._namesakes:
            count += self._namesakes.get(row, 0)
        return -(count + 1) / self._group_count if count > 0 else 0.0

    def rows(self) -> Set[int]:
        """Returns the rows whose score may differ from 0."""
        return self._live.keys() | self._namesakes.keys()
