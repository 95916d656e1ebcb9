"""A priority queue of rows by falling score, for few changes: a sorted array and a heap of
changes."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from orchgit.scheduler.ports import Numbers

NO_ROW = -1


class BestFirst:
    """Yields rows in order of falling score. A row's newest entry counts; `drop` removes the row
    until its next push."""

    def __init__(self, rows: Numbers, scores: NDArray[np.float64], ties: Numbers) -> None:
        order = np.lexsort((ties[rows], -scores))
        self._rows: list[int] = rows[order].tolist()
        self._scores: list[float] = scores[order].tolist()
        self._position = 0
        self._stamps: dict[int, int] = {}
        self._heap: list[tuple[float, int, int, int]] = []
        self._stamp = 0

    def push(self, row: int, score: float, tie: int) -> None:
        self._stamp += 1
        self._stamps[row] = self._stamp
        heapq.heappush(self._heap, (-score, tie, row, self._stamp))

    def drop(self, row: int) -> None:
        self._stamps[row] = 0

    def best(self) -> tuple[int, float]:
        """Returns (row, score), or (NO_ROW, -inf) if no row is left."""
        rows, stamps, heap = self._rows, self._stamps, self._heap
        position, end = self._position, len(rows)
        while position < end and rows[position] in stamps:
            position += 1
        self._position = position
        while heap and stamps[heap[0][2]] != heap[0][3]:
            heapq.heappop(heap)
        if position < end and (not heap or self._scores[position] >= -heap[0][0]):
            return rows[position], self._scores[position]
        return (heap[0][2], -heap[0][0]) if heap else (NO_ROW, float("-inf"))
