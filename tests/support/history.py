"""What clients did to a cluster, what came back, and whether it can be true.

Every operation has the times of its call and of its answer. One whose answer is an error, or which
has none, may have happened or not: `ended` stays None.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field

from tests.support.linearizable import INITIAL, Operation, explain


@dataclass(slots=True)
class Seen:
    """A version of a variable: the index at which it was written, and the value."""

    index: int
    value: int


@dataclass(slots=True)
class KeyHistory:
    operations: list[Operation] = field(default_factory=list)
    acknowledged: list[tuple[int, Seen]] = field(default_factory=list)
    """Check-and-set that succeeded: (the index it expected, what it made)."""
    seen: list[Seen] = field(default_factory=list)


class History:
    """Values are given out here, each for one write."""

    def __init__(self) -> None:
        self.keys: dict[str, KeyHistory] = defaultdict(KeyHistory)
        self.jobs: set[str] = set()
        """Registrations that were acknowledged."""
        self.commits: list[str] = []
        """Pushes that were acknowledged, in their order."""
        self.failures = 0
        self._values = itertools.count(INITIAL + 1)

    def new_value(self) -> int:
        return next(self._values)

    @property
    def writes(self) -> int:
        """How many were acknowledged."""
        return sum(len(one.acknowledged) for one in self.keys.values())

    def written(self, key: str, write: Operation, expected: int, index: int) -> None:
        version = Seen(index, write.value)
        self.keys[key].acknowledged.append((expected, version))
        self.keys[key].seen.append(version)

    def read(self, key: str, read: Operation, index: int) -> None:
        self.keys[key].operations.append(read)
        self.keys[key].seen.append(Seen(index, read.value))

    def problem(self) -> str | None:
        """None if what every client saw of every variable can be explained."""
        for key, history in self.keys.items():
            found = _versions(history) or explain(history.operations)
            if found:
                return f"{key}: {found}"
        return None


def _versions(history: KeyHistory) -> str | None:
    """An index is one value's for ever, and nothing came between a check and its set."""
    values: dict[int, int] = {}
    for seen in history.seen:
        if values.setdefault(seen.index, seen.value) != seen.value:
            return f"index {seen.index} was {values[seen.index]} and {seen.value}"
    ordered = sorted(values)
    before = dict(zip(ordered[1:], ordered, strict=False))
    for expected, made in history.acknowledged:
        newest = before.get(made.index, 0)
        if expected < newest < made.index:
            return f"{made.value} was set for index {expected}, but {newest} had been there"
    return None
