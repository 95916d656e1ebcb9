"""Priority queues of nodes: one, or with spreads one for each combination of values.

Rows with the same combination and the same number of scores keep their order whatever the boost
of the combination is: the final score is (sum + boost) / (number + 1 if there is a boost).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orchgit.scheduler.ports import Numbers
from orchgit.scheduler.ranking.best_first import NO_ROW, BestFirst
from orchgit.scheduler.ranking.spread import SpreadScore

_NO_SCORE = float("-inf")
Key = tuple[int, int]


class Queues:
    """Orders the rows by final score; `sums` and `parts` are the sum and the number of each row's
    scores."""

    def __init__(
        self,
        rows: Numbers,
        sums: NDArray[np.float64],
        parts: Numbers,
        ties: Numbers,
        spread: SpreadScore | None,
    ) -> None:
        self._ties = ties
        self._spread = spread
        self._queues: dict[Key, BestFirst] = {}
        self._queue_of: dict[int, Key] = {}
        if spread is None:
            self._only = BestFirst(rows, sums / parts, ties)
        else:
            self._split(rows, sums, parts, spread)

    def _split(
        self, rows: Numbers, sums: NDArray[np.float64], parts: Numbers, spread: SpreadScore
    ) -> None:
        combinations = spread.combination[rows]
        for combination in np.unique(combinations).tolist():
            for part in np.unique(parts[combinations == combination]).tolist():
                chosen = (combinations == combination) & (parts == part)
                key = (combination, part)
                self._queues[key] = BestFirst(rows[chosen], sums[chosen], self._ties)
                self._queue_of.update(dict.fromkeys(rows[chosen].tolist(), key))

    def best(self) -> int:
        """Returns the row with the best final score, or NO_ROW."""
        if self._spread is None:
            return self._only.best()[0]
        boosts = self._spread.boosts().tolist()
        best_row, best = NO_ROW, (_NO_SCORE, 0)
        for (combination, parts), queue in self._queues.items():
            row, total = queue.best()
            if row != NO_ROW:
                boost = boosts[combination]
                score = (total + boost) / (parts + (boost != 0))
                if (score, -self._ties[row]) > best:
                    best_row, best = row, (score, -self._ties[row])
        return best_row

    def drop(self, row: int) -> None:
        """Removes the row until `put` adds it again."""
        if self._spread is None:
            self._only.drop(row)
        elif row in self._queue_of:
            self._queues[self._queue_of.pop(row)].drop(row)

    def put(self, row: int, total: float, parts: int) -> None:
        """Sets the sum and number of the row's scores; a sum of -inf removes the row."""
        if total == _NO_SCORE:
            self.drop(row)
        elif self._spread is None:
            self._only.push(row, total / parts, int(self._ties[row]))
        else:
            self.drop(row)
            key = (int(self._spread.combination[row]), parts)
            if key not in self._queues:
                empty = np.zeros(0, dtype=np.int64)
                self._queues[key] = BestFirst(empty, np.zeros(0), self._ties)
            self._queues[key].push(row, total, int(self._ties[row]))
            self._queue_of[row] = key
