"""What the sole writer read or wrote a moment ago, so that it need not ask the database again.

A registration is followed within milliseconds by its evaluation's outcome, and both ask what the
writer has just written: whether the evaluation is known, what the job's status follows from,
whether the namespace exists. Nobody else writes, so what is remembered is what the transaction
would read; where a part of it is undone or replaced, all is forgotten. A server that remembers
nothing asks, and comes to the same: no result may depend on what is found here.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_MOST = 4096


class Standing(NamedTuple):
    """What a job's status follows from, besides its evaluations and its past."""

    status: str
    fixed: str
    """The status of a job of this kind whatever becomes of its work; empty: it depends."""
    live: int
    """Allocations that neither side calls over."""


class Recent(dict[K, V]):
    """At most 4,096 of the newest: it begins anew where one would be too many."""

    def keep_all(self, items: Collection[tuple[K, V]]) -> None:
        if len(self) + len(items) > _MOST:
            self.clear()
        if len(items) <= _MOST:
            self.update(items)

    def keep(self, key: K, value: V) -> None:
        if len(self) >= _MOST:
            self.clear()
        self[key] = value


class Remembered:
    def __init__(self) -> None:
        self.offset: int | None = None
        """Index of the state minus index of the log."""
        self.namespaces: set[str] = set()
        """Some that exist."""
        self.created: Recent[str, int] = Recent()
        """Evaluation -> its create index, for some that exist."""
        self.standings: Recent[tuple[str, str], Standing] = Recent()
        """(namespace, job) -> for some that are registered."""

    def forget(self) -> None:
        self.offset = None
        self.namespaces.clear()
        self.created.clear()
        self.standings.clear()
