"""What the templates of this node read of the cluster, kept current by one blocking query.

Templates that read the same thing share it. While access control is on, what a task reads is shared
with no task that has another identity.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import structlog

from agent.loops import spawn, until_done
from agent.templates.functions import Known
from agent.templates.queries import Query, QueryKind
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
class Reader:
    """A task that reads. `identity` names its job, group and task."""

    alloc_id: str
    task: str
    namespace: str
    identity: str


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
    subscriptions: dict[Subscription, None] = field(default_factory=dict)


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
        self._changed = asyncio.Event()
        """What is read is not what the query in flight asks for."""
        self._reconnected = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None

    def subscribe(self, reader: Reader) -> Subscription:
        """The caller closes the subscription."""
        return Subscription(self, reader)

    async def close(self) -> None:
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)

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
        scope = "" if self.settings.is_shared() else reader.identity
        key = (scope, namespace, query)
        found = self._entries.get(key)
        if found is None:
            found = self._entries[key] = _Entry(namespace, query)
            if self._is_elsewhere(query):
                found.known = Known.ABSENT
            else:
                self._wake()
        found.subscriptions[subscription] = None
        return found

    def _is_elsewhere(self, query: Query) -> bool:
        """Whether no server of this region answers: it waits for ever, and says for what."""
        outside = query.kind in (QueryKind.CONSUL, QueryKind.VAULT)
        return outside or query.region not in ("", self.settings.region)

    def leave(self, subscription: Subscription, entries: Iterable[_Entry]) -> None:
        for entry in entries:
            entry.subscriptions.pop(subscription, None)
        unread = [key for key, entry in self._entries.items() if not entry.subscriptions]
        for key in unread:
            del self._entries[key]

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
            value = json.loads(given.value) if given.found else None
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

    async def wait(self) -> None:
        """Waits until something has changed that `take_changed` did not give yet."""
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
