"""Decides between nodes of equal score and the order in which ports are tried, from one seed."""

from __future__ import annotations

import random
from functools import cached_property
from typing import cast

import numpy as np

from orchgit.scheduler.ports import NodeColumns, Numbers

_TIE_MASK = (1 << 62) - 1


class TieBreak:
    """Computes the random numbers of an evaluation on first use; an evaluation without placements
    needs none."""

    def __init__(self, columns: NodeColumns, seed: int) -> None:
        self._columns = columns
        self._seed = seed

    @cached_property
    def rng(self) -> random.Random:
        return random.Random(self._seed)  # noqa: S311 (ports, not secrets)

    @cached_property
    def ties(self) -> Numbers:
        """A number for each row; the row with the lowest number wins among equal rows.

        The numbers are cached random numbers times an odd number from the seed: each seed gives
        another order, at a tenth of the cost of a shuffle.
        """
        return _numbers(self._columns) * np.int64(2 * self._seed + 1) & _TIE_MASK


def _numbers(columns: NodeColumns) -> Numbers:
    size = len(columns.nodes)
    known = columns.memo.get(("tie numbers", size))
    if known is None:
        known = np.random.default_rng(size).integers(_TIE_MASK, size=size)
        columns.memo["tie numbers", size] = known
    return cast(Numbers, known)
