"""What decides between equal nodes, and which ports are tried first: all of it from one seed."""

from __future__ import annotations

import random
from functools import cached_property
from typing import cast

import numpy as np

from orchgit.scheduler.ports import NodeColumns, Numbers

_TIE_MASK = (1 << 62) - 1


class TieBreak:
    """Made when it is asked for: an evaluation that places nothing asks for none of it."""

    def __init__(self, columns: NodeColumns, seed: int) -> None:
        self._columns = columns
        self._seed = seed

    @cached_property
    def rng(self) -> random.Random:
        return random.Random(self._seed)  # noqa: S311 (ports, not secrets)

    @cached_property
    def ties(self) -> Numbers:
        """A number for each row; among equal rows the one with the lowest is taken.

        Random numbers that are kept, times an odd one for this seed: another order for each seed,
        at a tenth of what it costs to shuffle.
        """
        return _numbers(self._columns) * np.int64(2 * self._seed + 1) & _TIE_MASK


def _numbers(columns: NodeColumns) -> Numbers:
    size = len(columns.nodes)
    known = columns.memo.get(("tie numbers", size))
    if known is None:
        known = np.random.default_rng(size).integers(_TIE_MASK, size=size)
        columns.memo["tie numbers", size] = known
    return cast(Numbers, known)
