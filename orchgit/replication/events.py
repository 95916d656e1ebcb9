"""What applied entries tell the rest of the server: stored evaluations, changed keys, events.

Handlers leave notes; the events' payloads are built from them only when somebody asks, because a
plan may hold ten thousand allocations and usually nobody listens.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import msgspec

from orchgit.model.acl import (
    AclAuthMethod,
    AclBindingRule,
    AclPolicy,
    AclRole,
    AclToken,
    without_secret,
)
from orchgit.model.allocation import Allocation, DriverAddress
from orchgit.model.deployment import Deployment
from orchgit.model.drift import JobDrift
from orchgit.model.evaluation import Evaluation
from orchgit.model.event import Event, VariableChange
from orchgit.model.job import Job
from orchgit.model.node import Node, NodePool
from orchgit.model.rollout import Rollout
from orchgit.model.source import Source
from orchgit.model.source_health import SourceHealthChange
from orchgit.model.volume import HostVolume
from orchgit.state.changes import Changes
from orchgit.state.service_catalog import registrations_of
from orchgit.state.snapshot import Snapshot

_MAX_WAITING_BATCHES = 1024
_FILTER_KEYS = ("job_id", "deployment_id", "eval_id", "node_id", "source", "parent_id")
_KEYS = {
    Source: "name",
    SourceHealthChange: "source",
    NodePool: "name",
    VariableChange: "path",
    AclPolicy: "name",
    AclAuthMethod: "name",
    AclToken: "accessor_id",
}
"""What names an object that has no `id`."""
_OTHER_FILTER_KEYS: dict[type, tuple[str, ...]] = {
    HostVolume: ("id", "name", "plugin_id"),
    AclRole: ("name",),
    AclBindingRule: ("auth_method",),
}

AclObject = AclToken | AclPolicy | AclRole | AclAuthMethod | AclBindingRule
Topical = (
    Job
    | Evaluation
    | Allocation
    | Deployment
    | Node
    | NodePool
    | HostVolume
    | VariableChange
    | Source
    | Rollout
    | JobDrift
    | SourceHealthChange
    | AclObject
)


ServiceOwner = tuple[str, str]
"""An allocation's id and one of its tasks; "" is its group."""
Providers = dict[ServiceOwner, DriverAddress | None]
"""Those whose services are registered, with the address that a driver gave to the task."""


@dataclass(slots=True)
class EventNote:
    type: str
    index: int
    subject: Topical


@dataclass(slots=True)
class EvaluationNotes:
    """All that one entry stored: one note, as a batch of outcomes has dozens."""

    type: str
    index: int
    evaluations: Sequence[Evaluation]


@dataclass(slots=True)
class AllocNotes:
    """Allocations to be read when the events are built; they may be newer by then."""

    type: str
    index: int
    ids: Collection[str]


@dataclass(slots=True)
class ServiceNotes:
    """Owners whose services began or ceased to be provided: `type` says which."""

    type: str
    index: int
    owners: Collection[ServiceOwner]


Note = EventNote | EvaluationNotes | AllocNotes | ServiceNotes


@dataclass(slots=True)
class Effects:
    """What one or many entries did, besides changing rows."""

    evaluations: list[Evaluation] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    freed_nodes: set[str] = field(default_factory=set)
    """Where an allocation ended for its agent, so that there is room."""
    restored: bool = False
    """The whole state is another one: a snapshot was restored."""

    def note(self, index: int, type_: str, subject: Topical) -> None:
        self.notes.append(EventNote(type_, index, subject))

    def note_evaluations(self, index: int, type_: str, stored: Sequence[Evaluation]) -> None:
        self.evaluations.extend(stored)
        self.notes.append(EvaluationNotes(type_, index, stored))

    def note_allocs(self, index: int, type_: str, ids: Collection[str]) -> None:
        if ids:
            self.notes.append(AllocNotes(type_, index, ids))

    def note_services(self, index: int, before: Providers, after: Providers) -> None:
        """`before` and `after`: whose services are provided. A service whose address changes is
        registered again."""
        began = [one for one in after if one not in before or before[one] != after[one]]
        for type_, owners in (
            ("ServiceRegistration", began),
            ("ServiceDeregistration", [one for one in before if one not in after]),
        ):
            if owners:
                self.notes.append(ServiceNotes(type_, index, owners))

    def merge(self, other: Effects) -> None:
        self.evaluations.extend(other.evaluations)
        self.notes.extend(other.notes)
        self.freed_nodes |= other.freed_nodes
        self.restored = self.restored or other.restored


@dataclass
class AppliedBatch:
    """What the entries up to `index` did since the batch before."""

    index: int
    changes: Changes
    effects: Effects
    open_snapshot: Callable[[], Snapshot]
    replaced: bool = False
    """The state was replaced whole, by a snapshot of the leader or one that was restored: anything
    may have changed, though `changed` names no keys, and what happened before is not told."""

    @property
    def evaluations(self) -> list[Evaluation]:
        """Those stored, as they were stored; an evaluation may occur more than once."""
        return self.effects.evaluations

    @property
    def changed(self) -> Mapping[str, Collection[str]]:
        """Table (or derived name, see orchgit.state.changes) -> keys."""
        return self.changes.keys

    @property
    def events(self) -> list[Event]:
        """In the order of the log; built from the state as it is now. For any thread."""
        with self.open_snapshot() as snapshot:
            return [event for note in self.effects.notes for event in _events(note, snapshot)]

    def absorb(self, later: AppliedBatch) -> None:
        """Become one batch with the one that follows."""
        self.index = later.index
        self.replaced = self.replaced or later.replaced
        self.changes.merge(later.changes)
        self.effects.merge(later.effects)

    def copy(self) -> AppliedBatch:
        """One that may absorb others."""
        changes, effects = Changes(), Effects()
        changes.merge(self.changes)
        effects.merge(self.effects)
        return AppliedBatch(self.index, changes, effects, self.open_snapshot, self.replaced)


def _events(note: Note, snapshot: Snapshot) -> list[Event]:
    if isinstance(note, EventNote):
        return [event_of(note.type, note.index, note.subject)]
    if isinstance(note, EvaluationNotes):
        return [event_of(note.type, note.index, one) for one in note.evaluations]
    if isinstance(note, ServiceNotes):
        return list(_of_services(note, snapshot))
    found = {alloc.id: alloc for alloc in snapshot.allocations.get_many(note.ids)}
    return [event_of(note.type, note.index, found[id_]) for id_ in note.ids if id_ in found]


def _of_services(note: ServiceNotes, snapshot: Snapshot) -> Iterator[Event]:
    tasks: dict[str, set[str]] = {}
    for alloc_id, task in note.owners:
        tasks.setdefault(alloc_id, set()).add(task)
    for alloc, registration in registrations_of(snapshot, tasks):
        yield Event(
            topic="Service",
            type=note.type,
            key=registration["ID"],
            namespace=alloc.namespace,
            filter_keys=[registration["JobID"], registration["ServiceName"]],
            index=note.index,
            payload={"Service": registration},
        )


def event_of(type_: str, index: int, subject: Topical) -> Event:
    """An event about one object, with the object as its payload (and no secret in it)."""
    topic = type(subject).__name__
    if isinstance(subject, VariableChange):
        topic = "Variable"
    if isinstance(subject, AclObject):
        topic = f"ACL{topic.removeprefix('Acl')}"
    if isinstance(subject, Node):
        subject = msgspec.structs.replace(subject, secret_id="")
    elif isinstance(subject, AclToken):
        subject = without_secret(subject)
    elif isinstance(subject, AclAuthMethod):
        subject = msgspec.structs.replace(subject, secrets=None)
    names = _OTHER_FILTER_KEYS.get(type(subject), _FILTER_KEYS)
    return Event(
        topic=topic,
        type=type_,
        key=getattr(subject, _KEYS.get(type(subject), "id")),
        namespace=getattr(subject, "namespace", ""),
        filter_keys=[key for name in names if (key := getattr(subject, name, ""))],
        index=index,
        payload={topic: subject},
    )


class AppliedFeed:
    """`async for batch in feed`; ends when the state stops, or at `close`.

    A slow reader gets fewer, larger batches: nothing is left out.
    """

    def __init__(self, on_close: Callable[[AppliedFeed], None]) -> None:
        self._batches: deque[AppliedBatch] = deque()
        self._ready = asyncio.Event()
        self._closed = False
        self._on_close = on_close

    def push(self, batch: AppliedBatch) -> None:
        if len(self._batches) < _MAX_WAITING_BATCHES:
            self._batches.append(batch)
        else:
            last = self._batches.pop().copy()
            last.absorb(batch)
            self._batches.append(last)
        self._ready.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AppliedBatch:
        while not self._batches:
            if self._closed:
                raise StopAsyncIteration
            self._ready.clear()
            await self._ready.wait()
        return self._batches.popleft()

    def close(self) -> None:
        """What has been pushed can still be read."""
        self._closed = True
        self._ready.set()
        self._on_close(self)


class AppliedFeeds:
    """All feeds of one server; on the event loop's thread."""

    def __init__(self) -> None:
        self._feeds: list[AppliedFeed] = []

    def subscribe(self) -> AppliedFeed:
        feed = AppliedFeed(on_close=self._remove)
        self._feeds.append(feed)
        return feed

    def _remove(self, feed: AppliedFeed) -> None:
        self._feeds = [one for one in self._feeds if one is not feed]

    def push(self, batch: AppliedBatch) -> None:
        for feed in self._feeds:
            feed.push(batch)

    def close(self) -> None:
        for feed in list(self._feeds):
            feed.close()
