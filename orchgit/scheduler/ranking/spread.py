"""Scores nodes by the spread targets, given the rows of the group's allocations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from orchgit.model.constraint import Spread
from orchgit.scheduler.feasibility.checks import values_of
from orchgit.scheduler.ports import NodeColumns, Numbers

Scores = NDArray[np.float64]
_IMPLICIT = "*"


class _Attribute:
    """One spread: counts the group's allocations by value of the attribute."""

    def __init__(
        self, columns: NodeColumns, spread: Spread, group_count: int, weight_share: float
    ) -> None:
        self.codes, self.values = values_of(columns, spread.attribute)
        self._counts = [0] * len(self.values)
        self._in_use: set[int] = set()
        """Codes of values that have been counted, also those that the plan brought back to 0."""
        self._share = weight_share
        self._desired = {
            target.value: target.percent / 100.0 * group_count
            for target in spread.spread_target or ()
        }
        rest = group_count - sum(self._desired.values())
        self._has_targets = bool(self._desired)
        if self._has_targets and 0 < rest < group_count:
            self._desired[_IMPLICIT] = rest
        self._lowest = -1.0

    def boosts(self) -> Scores:
        """Returns the boost of each value for one more allocation there."""
        if self._has_targets:
            return self._target_boosts()
        return self._even_boosts()

    def _target_boosts(self) -> Scores:
        implicit = sum(
            count
            for value, count in zip(self.values, self._counts, strict=True)
            if value not in self._desired
        )
        raw = [self._boost(value, code, implicit) for code, value in enumerate(self.values)]
        known = [boost for boost in raw if boost is not None]
        self._lowest = min([self._lowest, *known])
        return np.array([self._lowest if boost is None else boost for boost in raw])

    def _boost(self, value: str | None, code: int, implicit: int) -> float | None:
        if value is None:
            return -1.0
        used = self._counts[code] + 1
        desired = self._desired.get(value)
        if desired is None:
            desired = self._desired.get(_IMPLICIT)
            used = implicit + 1
        if desired is None:
            return -1.0
        if desired == 0:
            return None
        return (desired - used) / desired * self._share

    def _even_boosts(self) -> Scores:
        in_use = [self._counts[code] for code in self._in_use]
        if not in_use:
            return np.array([-1.0 if value is None else 0.0 for value in self.values])
        low, high = min(in_use), max(in_use)
        return np.array(
            [
                -1.0 if value is None else _even_boost(count, low, high)
                for value, count in zip(self.values, self._counts, strict=True)
            ]
        )

    def add(self, code: int, change: int) -> None:
        """Changes the number of allocations with this value by `change`."""
        self._counts[code] += change
        if self.values[code] is not None:
            self._in_use.add(code)


def _even_boost(count: int, low: int, high: int) -> float:
    if count != low:
        return (low - count) / low if low else -1.0
    if low == high:
        return -1.0
    return (high - low) / low if low else 1.0


class SpreadScore:
    """All spreads of a group. Rows with the same `combination[row]` always have the same boost."""

    def __init__(self, columns: NodeColumns, spreads: Sequence[Spread], group_count: int) -> None:
        total = sum(spread.weight for spread in spreads) or 1
        self._attributes = [
            _Attribute(columns, spread, group_count, spread.weight / total) for spread in spreads
        ]
        codes = np.stack([attribute.codes for attribute in self._attributes], axis=1)
        combinations, inverse = np.unique(codes, axis=0, return_inverse=True)
        self.combination: Numbers = inverse.reshape(-1).astype(np.int64)
        self._codes = combinations

    @property
    def combinations(self) -> int:
        return len(self._codes)

    def add(self, row: int, change: int = 1) -> None:
        for attribute in self._attributes:
            attribute.add(int(attribute.codes[row]), change)

    def add_all(self, rows: Iterable[int]) -> None:
        for row in rows:
            self.add(row)

    def boosts(self) -> Scores:
        """Returns the boost of each combination."""
        total = np.zeros(len(self._codes))
        for position, attribute in enumerate(self._attributes):
            total += attribute.boosts()[self._codes[:, position]]
        return total
