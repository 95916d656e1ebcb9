"""What the templates of this node read of the cluster, kept current by one blocking query.

Templates that read the same thing share it. While access control is on, what a task reads is shared
with no task that has another identity.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import structlog

from agent.loops import spawn, until_done
from agent.templates.functions import Known
from agent.templates.queries import OUTSIDE, Query, QueryKind, why_unread
from orchgit.backoff import backoff_s
from orchgit.clock import Clock
from orchgit.errors import OrchgitError, UnavailableError
from orchgit.wait_first import wait_first
from orchgit.wire.messages import TaskRead, TaskReadsReply, TaskReadValue

_log = structlog.get_logger(component="agent")

ReadForTasks = Callable[[list[TaskRead], float], Awaitable[TaskReadsReply]]
"""Asks the server in use for values that are not those seen, for at most so many seconds."""
_GATHER_S = 0.005
"""How long new reads wait for others: templates come together."""


async def no_servers(reads: list[TaskRead], wait_s: float) -> TaskReadsReply:
    raise UnavailableError("cannot read for tasks: this agent has no servers")


@dataclass(frozen=True, slots=True)
class VaultAccess:
    """The token of Vault that a task has now."""

    token: str = field(repr=False)
    namespace: str


def no_vault_access() -> VaultAccess | None:
    return None


@dataclass(frozen=True, slots=True)
class Reader:
    """A task that reads. `identity` names its job, group and task; `vault_access` gives None
    without a token."""

    alloc_id: str
    task: str
    namespace: str
    identity: str
    vault_access: Callable[[], VaultAccess | None] = field(default=no_vault_access, compare=False)


@dataclass(frozen=True, slots=True)
class OutsideValue:
    """What a service beside the cluster gave, and after how long it is asked again."""

    value: Any
    next_s: float


class OutsideSource(Protocol):
    """Consul or Vault, as templates read them."""

    @property
    def kinds(self) -> frozenset[QueryKind]:
        """The queries that it answers."""

    @property
    def is_per_task(self) -> bool:
        """Whether each task reads with rights of its own."""

    async def read(self, query: Query, reader: Reader, last: OutsideValue | None) -> OutsideValue:
        """Returns what is there now; `last` is what the same query gave before. Raises an
        OrchgitError, whose text names the query."""


@dataclass(frozen=True, slots=True)
class ReadSettings:
    region: str = "global"
    wait_s: float = 300.0
    """How long one blocking query waits."""
    first_backoff_s: float = 0.25
    max_backoff_s: float = 60.0
    is_shared: Callable[[], bool] = lambda: True
    """Whether tasks of different identities share what they read: access control is off."""


@dataclass(slots=True)
class _Entry:
    """One thing that is read, and by whom."""

    namespace: str
    query: Query
    digest: str = ""
    known: Known = Known.UNKNOWN
    value: Any = None
    problem: str = ""
    """Why it cannot be read now; "" where nothing is known to be wrong."""
    subscriptions: dict[Subscription, None] = field(default_factory=dict)
    loop: asyncio.Task[None] | None = None
    """Reads it, where no server does."""
    again: asyncio.Event = field(default_factory=asyncio.Event)
    """It is to be read at once."""


class ClusterReads:
    """One for each agent, on its event loop."""

    def __init__(
        self, read: ReadForTasks = no_servers, clock: Clock | None = None,
        settings: ReadSettings | None = None,
    ) -> None:  # fmt: skip
        self._read = read
        self._clock = clock
        self.settings = settings or ReadSettings()
        self._entries: dict[tuple[str, str, Query], _Entry] = {}
        self._sources: dict[QueryKind, OutsideSource] = {}
        self._changed = asyncio.Event()
        """What is read is not what the query in flight asks for."""
        self._reconnected = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None

    def subscribe(self, reader: Reader) -> Subscription:
        """The caller closes the subscription."""
        return Subscription(self, reader)

    def add_source(self, source: OutsideSource) -> None:
        """Lets templates read from it; without one for a query its templates wait, and say why."""
        self._sources |= dict.fromkeys(source.kinds, source)

    async def close(self) -> None:
        loops = [self._loop, *(entry.loop for entry in self._entries.values())]
        running = [loop for loop in loops if loop is not None]
        for loop in running:
            loop.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def reconnected(self) -> None:
        """Another server is in use, or the same again: it is asked at once."""
        self._changed.set()
        self._reconnected.set()

    @property
    def count(self) -> int:
        """How many different things are read now."""
        return len(self._entries)

    # -- for subscriptions -------------------------------------------------------------------------

    def entry(self, subscription: Subscription, query: Query) -> _Entry:
        reader = subscription.reader
        namespace = query.namespace or reader.namespace
        source = self._sources.get(query.kind)
        if source is None:
            scope = "" if self.settings.is_shared() else reader.identity
        else:
            scope = f"{reader.alloc_id}/{reader.task}" if source.is_per_task else ""
            namespace = ""
        key = (scope, namespace, query)
        found = self._entries.get(key)
        if found is None:
            found = self._entries[key] = _Entry(namespace, query)
            if source is not None and self._clock is not None:
                follow, name = partial(self._follow, found, source, reader), "reads outside"
                found.loop = spawn(until_done(follow, name, self._clock), name)
            elif self._is_elsewhere(query):
                found.known, found.problem = Known.ABSENT, why_unread(query)
            else:
                self._wake()
        found.subscriptions[subscription] = None
        return found

    def _is_elsewhere(self, query: Query) -> bool:
        """Whether no server of this region answers."""
        return query.kind in OUTSIDE or query.region not in ("", self.settings.region)

    def leave(self, subscription: Subscription, entries: Iterable[_Entry]) -> None:
        for entry in entries:
            entry.subscriptions.pop(subscription, None)
        unread = [key for key, entry in self._entries.items() if not entry.subscriptions]
        for key in unread:
            loop = self._entries.pop(key).loop
            if loop is not None:
                loop.cancel()

    # -- Consul and Vault --------------------------------------------------------------------------

    async def _follow(self, entry: _Entry, source: OutsideSource, reader: Reader) -> None:
        """Reads again and again, until it is cancelled."""
        failures, last = 0, None
        clock = self._clock
        assert clock is not None, "reads need a clock"
        while True:
            entry.again.clear()
            try:
                last = await source.read(entry.query, reader, last)
                failures, entry.problem, pause_s = 0, "", last.next_s
                _give(entry, Known.FOUND, last.value)
            except OrchgitError as error:
                failures += 1
                first, most = self.settings.first_backoff_s, self.settings.max_backoff_s
                pause_s = backoff_s(failures, first, most, 0.5)
                if entry.problem != str(error):
                    entry.problem = str(error)
                    _log.warning("cannot read for templates; trying again", error=entry.problem)
                    for subscription in list(entry.subscriptions):
                        subscription.note_problem()
            async with wait_first(clock.sleep(pause_s), entry.again.wait()):
                pass

    # -- the blocking query ------------------------------------------------------------------------

    def _wake(self) -> None:
        self._changed.set()
        if self._loop is None and self._clock is not None:
            name = "reads of templates"
            self._loop = spawn(until_done(self._run, name, self._clock), name)

    async def _run(self) -> None:
        failures = 0
        clock = self._clock
        assert clock is not None, "reads need a clock"
        while True:
            self._changed.clear()
            self._reconnected.clear()
            asked = [each for each in self._entries.values() if not self._is_elsewhere(each.query)]
            if not asked:
                await self._changed.wait()
                await clock.sleep(_GATHER_S)
                continue
            reads = [_request(each) for each in asked]
            try:
                query = self._read(reads, self.settings.wait_s)
                async with wait_first(query, self._changed.wait()) as (answer, _):
                    if answer.done():
                        self._take(asked, answer.result().values)
                        failures = 0
                        continue
                await clock.sleep(_GATHER_S)
            except OrchgitError as error:
                failures += 1
                _log.debug("cannot read for templates; trying again", error=str(error))
                first, most = self.settings.first_backoff_s, self.settings.max_backoff_s
                pause = clock.sleep(backoff_s(failures, first, most, 0.5))
                async with wait_first(pause, self._reconnected.wait()):
                    pass

    def _take(self, asked: list[_Entry], values: list[TaskReadValue]) -> None:
        for given in values:
            if not 0 <= given.position < len(asked):
                continue
            entry = asked[given.position]
            entry.digest = given.digest
            known = Known.FOUND if given.found else Known.ABSENT
            _give(entry, known, json.loads(given.value) if given.found else None)


def _give(entry: _Entry, known: Known, value: Any) -> None:
    """Tells those who read it, if it is not what it was."""
    if (known, value) != (entry.known, entry.value):
        entry.known, entry.value = known, value
        for subscription in list(entry.subscriptions):
            subscription.note(entry.query)


def _request(entry: _Entry) -> TaskRead:
    reader = next(iter(entry.subscriptions)).reader
    return TaskRead(
        alloc_id=reader.alloc_id,
        task=reader.task,
        kind=entry.query.kind.value,
        namespace=entry.namespace,
        name=entry.query.name,
        seen=entry.digest,
    )


class Subscription:
    """What one task reads. `ask` begins to read what was not read before."""

    def __init__(self, reads: ClusterReads, reader: Reader) -> None:
        self._reads = reads
        self.reader = reader
        self._entries: dict[Query, _Entry] = {}
        self._noted: set[Query] = set()
        self._news = asyncio.Event()

    def ask(self, query: Query) -> tuple[Known, Any]:
        """What is known now."""
        entry = self._entries.get(query)
        if entry is None:
            entry = self._entries[query] = self._reads.entry(self, query)
        return entry.known, entry.value

    def note(self, query: Query) -> None:
        self._noted.add(query)
        self._news.set()

    def note_problem(self) -> None:
        """Wakes the reader: something cannot be read, for a reason that is new."""
        self._news.set()

    def read_again(self) -> None:
        """Has what is read with the task's own rights read at once: it has others now, and what
        the earlier ones gave may have ended with them."""
        for entry in self._entries.values():
            entry.again.set()

    def problems(self) -> tuple[str, ...]:
        """Returns why things cannot be read now, each reason once."""
        return tuple(sorted({each.problem for each in self._entries.values() if each.problem}))

    async def wait(self) -> None:
        """Waits until something has changed that `take_changed` did not give yet, or cannot be
        read for a new reason."""
        await self._news.wait()

    def take_changed(self) -> set[Query]:
        """Returns what has changed since the last call."""
        noted, self._noted = self._noted, set()
        self._news.clear()
        return noted

    def keep(self, queries: Iterable[Query]) -> None:
        """Go on with these, and stop reading others."""
        wanted = set(queries)
        left = [query for query in self._entries if query not in wanted]
        self._reads.leave(self, [self._entries.pop(query) for query in left])

    def close(self) -> None:
        self.keep(())
