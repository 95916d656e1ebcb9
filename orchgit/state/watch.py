"""Waiting for the state to change: blocking queries, and loops that sleep until there is work.

A waiter costs one future and one set entry per target. It is woken only by changes of its targets,
so thousands of waiters cost a publish one lookup per changed name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from orchgit.clock import Clock
from orchgit.state.changes import DERIVED, Changes

T = TypeVar("T")


class Watch:
    """Belongs to the event loop's thread. `publish` is called after each commit."""

    def __init__(self, indexes: Mapping[str, int], applied_index: int) -> None:
        self._indexes = dict(indexes)
        self._applied_index = applied_index
        self._replacements = 0
        self._waiters: dict[str, set[asyncio.Future[None]]] = {}
        self._index_waiters: set[tuple[int, asyncio.Future[None]]] = set()

    @property
    def applied_index(self) -> int:
        return self._applied_index

    @property
    def replacements(self) -> int:
        """How often the whole state was replaced, after which equal indexes say nothing."""
        return self._replacements

    @property
    def waiter_count(self) -> int:
        """Number of targets that are waited for (for metrics)."""
        return len(self._waiters)

    def index(self, targets: Collection[str]) -> int:
        """Returns the newest index of the tables that the targets belong to; at least 1."""
        newest = 1
        for target in targets:
            name = target.partition(":")[0]
            index = self._indexes.get(DERIVED.get(name, name), 1)
            if index > newest:  # `max` takes twice as long, and each answer asks several times
                newest = index
        return newest

    async def wait(self, targets: Collection[str], min_index: int, timeout_s: float) -> int:
        """Returns `index(targets)` when the targets may have changed after `min_index`, or at the
        time-out.

        A target is a table's name, or one object as `orchgit.state.changes.target(table, key)`. The
        wait ends at once if a table of the targets is beyond `min_index`; after that only changes
        of the targets themselves end it. So a query for one object must wait with the index of the
        snapshot that it read (not its client's), read again, and wait again.
        """
        if self.index(targets) > min_index or timeout_s <= 0:
            return self.index(targets)
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for name in targets:
            self._waiters.setdefault(name, set()).add(woken)
        try:
            await _done_or_after(woken, timeout_s)
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
        """Returns whether the applied index reached `index` in time."""
        if self._applied_index >= index:
            return True
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (index, woken)
        self._index_waiters.add(waiter)
        try:
            await _done_or_after(woken, timeout_s)
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
        """Call `read` -> (value or None, index of its snapshot) until it returns a value.

        Returns None at the time-out.
        """
        deadline_s = clock.monotonic_s() + timeout_s
        while True:
            value, index = read()
            left_s = deadline_s - clock.monotonic_s()
            if value is not None or left_s <= 0:
                return value
            await self.wait(targets, index, left_s)

    def publish(self, changes: Changes, applied_index: int) -> None:
        """Wake the waiters for `changes`: entries up to `applied_index` are committed."""
        self._applied_index = applied_index
        self._indexes.update(changes.table_indexes())
        if self._waiters:
            for table, keys in changes.keys.items():
                self._wake(table)
                self._wake_keys(table, keys)
        for waiter in [each for each in self._index_waiters if each[0] <= applied_index]:
            self._index_waiters.discard(waiter)
            _set(waiter[1])

    def note_replaced(self) -> None:
        """Wake every waiter for a target: anything may have changed."""
        self._replacements += 1
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


async def _done_or_after(woken: asyncio.Future[None], timeout_s: float) -> None:
    """Like `asyncio.wait`, with one step of the event loop less: thousands may wake at once."""
    timer = asyncio.get_running_loop().call_later(timeout_s, _set, woken)
    try:
        await woken
    finally:
        timer.cancel()


def _set(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
