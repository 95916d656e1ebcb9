"""Events in Nomad's form, encoded once for all readers of the event stream, beside the loop."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from orchgit.api.shapes import nomad_json
from orchgit.api.shapes.acl import AclObject, told_object
from orchgit.api.shapes.node_pools import shown_pool
from orchgit.api.shapes.stubs import allocation_alone, shown_node
from orchgit.model.acl import AclBindingRule, AclRole
from orchgit.model.allocation import Allocation
from orchgit.model.deployment import Deployment
from orchgit.model.evaluation import Evaluation
from orchgit.model.event import Event, VariableChange
from orchgit.model.node import Node, NodePool
from orchgit.model.volume import HostVolume

PART_EVENTS = 128
"""So many events are encoded at a time: 20 to 40 ms of a thread's time for allocations."""
_BESIDE_PAYLOAD = [name for name in Event.__struct_fields__ if name != "payload"]
_PAYLOAD_KEYS = {"ACLAuthMethod": "AuthMethod", "HostVolume": "Volume"}
"""Topics whose payload has another key."""


class EventBatch(Protocol):
    """The entries that were applied together (`orchgit.replication.events.AppliedBatch`).

    Their events are built whenever they are asked for.
    """

    @property
    def index(self) -> int: ...

    @property
    def events(self) -> Sequence[Event]: ...


@dataclass(frozen=True, slots=True)
class EncodedEvent:
    event: Event
    data: bytes


class EncodedBatch:
    """The events of one batch, in parts. A part is encoded when its first reader asks for it."""

    def __init__(self, batch: EventBatch) -> None:
        self._batch = batch
        self._parts: list[list[EncodedEvent]] = []
        self._rest: Iterator[Event] | None = None
        self._is_whole = False
        self._encoding: asyncio.Future[None] | None = None
        self.size_bytes = 0

    async def part(self, number: int) -> Sequence[EncodedEvent]:
        """Returns a part; an empty one after the last."""
        while number >= len(self._parts) and not self._is_whole:
            if self._encoding is None:
                self._encoding = asyncio.ensure_future(self._encode_part())
            await asyncio.shield(self._encoding)  # other readers wait for it too
        return self._parts[number] if number < len(self._parts) else ()

    async def _encode_part(self) -> None:
        try:
            part = await asyncio.to_thread(self._next_part)
        finally:
            self._encoding = None
        if part:
            self._parts.append(part)
            self.size_bytes += sum(len(each.data) for each in part)
        else:
            self._is_whole, self._rest = True, None

    def _next_part(self) -> list[EncodedEvent]:
        if self._rest is None:
            self._rest = iter(self._batch.events)
        return [
            # Without its payload: the encoded one is kept instead.
            EncodedEvent(
                Event(**{name: getattr(event, name) for name in _BESIDE_PAYLOAD}),
                nomad_json.encode(told_event(event)),
            )
            for event in itertools.islice(self._rest, PART_EVENTS)
        ]


def told_event(event: Event) -> dict[str, Any]:
    """Returns an event in Nomad's form; objects look as they do in answers."""
    subject = event.payload.get(event.topic)
    if isinstance(subject, Allocation):
        subject = allocation_alone(subject)
    elif isinstance(subject, Node):
        subject = shown_node(subject)
    elif isinstance(subject, AclObject):
        subject = told_object(subject)
    elif isinstance(subject, NodePool):
        subject = shown_pool(subject)
    return {
        "Topic": event.topic,
        "Type": event.type,
        "Key": event.key,
        "Namespace": event.namespace,
        "FilterKeys": _filter_keys(event.payload.get(event.topic)),
        "Index": event.index,
        "Payload": (
            _of_variable(subject)
            if isinstance(subject, VariableChange)
            else {_PAYLOAD_KEYS.get(event.topic, event.topic): subject}
        ),
    }


def _of_variable(change: VariableChange) -> dict[str, Any]:
    metadata = nomad_json.tree(change)
    return {"Deleted": metadata.pop("IsDeleted"), "Metadata": metadata}


def _filter_keys(subject: object) -> list[str] | None:
    """Returns the keys that Nomad's clients may name in a topic, and a few more."""
    if isinstance(subject, Allocation | Evaluation):
        return [subject.job_id, subject.deployment_id]
    if isinstance(subject, HostVolume):
        return [subject.id, subject.name, subject.plugin_id]
    if isinstance(subject, AclRole):
        return [subject.name]
    if isinstance(subject, AclBindingRule):
        return [subject.auth_method]
    if isinstance(subject, dict):  # a service's registration
        return [subject["JobID"], subject["ServiceName"]]
    return [subject.job_id] if isinstance(subject, Deployment) else None
