"""Waiting for the state to change: blocking queries, and loops that sleep until there is work.

A waiter costs one future and one set entry per thing it waits for, and is woken only by changes of
those: thousands of them cost a publish nothing but a lookup per changed name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from orchgit.clock import Clock
from orchgit.state.changes import DERIVED, Changes

T = TypeVar("T")


def _table_of(target: str) -> str:
    name = target.partition(":")[0]
    return DERIVED.get(name, name)


class Watch:
    """Belongs to the event loop's thread. `publish` is called after each commit."""

    def __init__(self, indexes: Mapping[str, int], applied_index: int) -> None:
        self._indexes = dict(indexes)
        self._applied_index = applied_index
        self._waiters: dict[str, set[asyncio.Future[None]]] = {}
        self._index_waiters: set[tuple[int, asyncio.Future[None]]] = set()

    @property
    def applied_index(self) -> int:
        return self._applied_index

    @property
    def waiter_count(self) -> int:
        """How many names are waited for (for metrics)."""
        return len(self._waiters)

    def index(self, targets: Collection[str]) -> int:
        """The newest index of the tables that the targets lie in; at least 1."""
        return max((self._indexes.get(_table_of(target), 1) for target in targets), default=1)

    async def wait(self, targets: Collection[str], min_index: int, timeout_s: float) -> int:
        """Return `index(targets)` once something newer than `min_index` may be there.

        A target is a table's name, or one object as `orchgit.state.changes.target(table, key)`.
        It returns at once if a table of the targets is already beyond `min_index`; after that only
        changes of the targets themselves end the wait. So a query for one object must wait with
        the index of the snapshot that it read (not its client's), look again, and wait again.
        Returns at the time-out too.
        """
        if self.index(targets) > min_index or timeout_s <= 0:
            return self.index(targets)
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for name in targets:
            self._waiters.setdefault(name, set()).add(woken)
        try:
            await asyncio.wait((woken,), timeout=timeout_s)
        finally:
            self._forget(targets, woken)
        return self.index(targets)

    def _forget(self, targets: Collection[str], woken: asyncio.Future[None]) -> None:
        woken.cancel()
        for name in targets:
            waiters = self._waiters.get(name)
            if waiters is not None:
                waiters.discard(woken)
                if not waiters:
                    del self._waiters[name]

    async def wait_applied(self, index: int, timeout_s: float) -> bool:
        """Whether the applied index reached `index` in time."""
        if self._applied_index >= index:
            return True
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (index, woken)
        self._index_waiters.add(waiter)
        try:
            await asyncio.wait((woken,), timeout=timeout_s)
        finally:
            self._index_waiters.discard(waiter)
        return self._applied_index >= index

    async def until(
        self,
        read: Callable[[], tuple[T | None, int]],
        targets: Collection[str],
        clock: Clock,
        timeout_s: float,
    ) -> T | None:
        """Call `read` -> (value or None, its snapshot's index) until there is a value."""
        deadline_s = clock.monotonic_s() + timeout_s
        while True:
            value, index = read()
            left_s = deadline_s - clock.monotonic_s()
            if value is not None or left_s <= 0:
                return value
            await self.wait(targets, index, left_s)

    def publish(self, changes: Changes, applied_index: int) -> None:
        """Entries up to `applied_index` are committed; wake who waits for what they changed."""
        self._applied_index = applied_index
        self._indexes.update(changes.table_indexes())
        if self._waiters:
            for table, keys in changes.keys.items():
                self._wake(table)
                self._wake_keys(table, keys)
        for waiter in [one for one in self._index_waiters if one[0] <= applied_index]:
            self._index_waiters.discard(waiter)
            _set(waiter[1])

    def wake_all(self) -> None:
        """Anything may have changed."""
        for name in list(self._waiters):
            self._wake(name)

    def _wake(self, name: str) -> None:
        for woken in self._waiters.pop(name, ()):
            _set(woken)

    def _wake_keys(self, table: str, keys: Collection[str]) -> None:
        names: Iterable[str]
        if len(keys) <= len(self._waiters):
            names = (f"{table}:{key}" for key in keys)
        else:
            start = f"{table}:"
            waited = [name for name in self._waiters if name.startswith(start)]
            names = (name for name in waited if name[len(start) :] in keys)
        for name in names:
            self._wake(name)


def _set(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
