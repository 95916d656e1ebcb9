"""Keeps encoded answers while the tables that they were read from stay as they are."""

from __future__ import annotations

import asyncio
import gzip
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

MAX_KEPT_BYTES = 64 << 20
MAX_ANSWER_BYTES = 16 << 20
"""A larger answer is not kept."""


_ACCESS_TABLES = ("acl_policies", "acl_roles", "acl_tokens")
"""What callers may see depends on these."""
KEEP = "orchgit.keep"
"""The key of a request's scope for the listener's `Keep`, where it can answer equal requests
itself."""


@dataclass(frozen=True, slots=True)
class KeptBytes:
    """An answer as it is sent."""

    holds: Callable[[], bool]
    """Whether the same would be answered now."""
    head: bytes
    """The header lines, and the empty line."""
    body: bytes
    count: Callable[[float], None]
    """Counts a request answered so; the argument is the seconds it took."""


Keep = Callable[[KeptBytes], None]


class WatchPort(Protocol):
    """The indexes of the published state: see `orchgit.state.watch.Watch`."""

    @property
    def applied_index(self) -> int: ...

    @property
    def replacements(self) -> int: ...

    def index(self, targets: Sequence[str]) -> int: ...


class StorePort(Protocol):
    """See `orchgit.state.store.Store`."""

    @property
    def watch(self) -> WatchPort: ...

    @property
    def visible_index(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Before:
    """What held before an answer was read: which replacement of the state, which access rules."""

    replacements: int
    access_index: int


@dataclass(slots=True)
class KeptAnswer:
    """A body as it is sent, with the tables that it was read from and their newest index then."""

    tables: Sequence[str]
    table_index: int
    before: Before
    index: int
    """What X-Nomad-Index says."""
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    _zipped: bytes | None = None

    def zipped(self) -> bytes:
        if self._zipped is None:
            self._zipped = gzip.compress(self.body, compresslevel=1, mtime=0)
        return self._zipped

    @property
    def size_bytes(self) -> int:
        """Of the body, with room for its compressed form."""
        return len(self.body) + len(self.body) // 3


class _UnderWay:
    """A read that other requests may wait for, as long as nothing was committed since it began.

    A waiter that is canceled takes nothing from the others. Thousands may wait: a future for each
    costs half of what `asyncio.shield` does.
    """

    def __init__(self, position: tuple[int, int]) -> None:
        self.position = position
        self._waiters: list[asyncio.Future[KeptAnswer]] = []

    async def answer(self) -> KeptAnswer:
        waiter: asyncio.Future[KeptAnswer] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return await waiter

    def end(self, read: asyncio.Task[KeptAnswer]) -> None:
        """Passes on what the read came to."""
        error = None if read.cancelled() else read.exception()
        for waiter in self._waiters:
            if waiter.done():
                continue
            if read.cancelled():
                waiter.cancel()
            elif error is not None:
                waiter.set_exception(error)
            else:
                waiter.set_result(read.result())


class KeptAnswers:
    """Belongs to the event loop's thread.

    An answer is given again only while the state that readers can see is the published one, and the
    answer's tables have not changed: so whoever saw a newer state never sees an older one.
    """

    def __init__(self, store: Callable[[], StorePort], max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._store = store
        self._max_bytes = max_bytes
        self._bytes = 0
        self._answers: OrderedDict[Hashable, KeptAnswer] = OrderedDict()
        self._under_way: dict[Hashable, _UnderWay] = {}
        self._tasks: set[asyncio.Task[KeptAnswer]] = set()

    def is_current(self, answer: KeptAnswer) -> bool:
        store = self._store()
        watch = store.watch
        return (
            store.visible_index == watch.applied_index
            and answer.table_index == watch.index(answer.tables)
            and answer.before == self.before()
        )

    def before(self) -> Before:
        watch = self._store().watch
        return Before(watch.replacements, watch.index(_ACCESS_TABLES))

    def find(self, key: Hashable) -> KeptAnswer | None:
        """Returns the answer under `key` if it is what would be read now."""
        found = self._answers.get(key)
        if found is None or not self.is_current(found):
            return None
        self._answers.move_to_end(key)
        return found

    def keep(self, key: Hashable, answer: KeptAnswer) -> None:
        """Keeps the answer instead of the one before it, and drops the least used ones."""
        earlier = self._answers.pop(key, None)
        if earlier is not None:
            self._bytes -= earlier.size_bytes
        if answer.size_bytes > MAX_ANSWER_BYTES:
            return
        self._answers[key] = answer
        self._bytes += answer.size_bytes
        while self._bytes > self._max_bytes:
            _, dropped = self._answers.popitem(last=False)
            self._bytes -= dropped.size_bytes

    async def answer(self, key: Hashable, read: Callable[[], Awaitable[KeptAnswer]]) -> KeptAnswer:
        """Returns the answer under `key`; reads it once, for all who ask for it meanwhile."""
        found = self.find(key)
        if found is not None:
            return found
        store = self._store()
        position = store.visible_index, store.watch.replacements
        under_way = self._under_way.get(key)
        if under_way is None or under_way.position != position:
            if position[0] != store.watch.applied_index:
                # A commit is under way: others could not tell whether this read saw it.
                return await read()
            under_way = self._under_way[key] = _UnderWay(position)
            task = asyncio.create_task(self._read(key, read, under_way), name="kept answer")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(under_way.end)
        return await under_way.answer()

    async def _read(
        self, key: Hashable, read: Callable[[], Awaitable[KeptAnswer]], under_way: _UnderWay
    ) -> KeptAnswer:
        try:
            answer = await read()
        finally:
            if self._under_way.get(key) is under_way:
                del self._under_way[key]
        self.keep(key, answer)
        return answer
