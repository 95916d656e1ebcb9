"""The event stream: newline-delimited JSON, `{}` at once and whenever nothing happened for long."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

from starlette.responses import Response, StreamingResponse

from orchgit.api.access.control import AccessRefusedError
from orchgit.api.access.objects import StateObjects
from orchgit.api.access.requirements import ObjectKind
from orchgit.api.access.topics import may_follow, sees_event
from orchgit.api.call import ApiCall
from orchgit.api.errors import VARY
from orchgit.api.event_buffer import EventBuffer
from orchgit.api.routes.node_pools import shown as shown_pool
from orchgit.api.routing import endpoint
from orchgit.api.shapes import nomad_json
from orchgit.api.shapes.acl import AclObject, told_object
from orchgit.api.shapes.stubs import allocation_alone, shown_node
from orchgit.errors import InvalidInputError
from orchgit.model.acl import AclBindingRule, AclRole
from orchgit.model.allocation import Allocation
from orchgit.model.deployment import Deployment
from orchgit.model.evaluation import Evaluation
from orchgit.model.event import Event, VariableChange
from orchgit.model.node import Node, NodePool
from orchgit.model.volume import HostVolume
from orchgit.whole_number import whole_number

HEARTBEAT_S = 30.0
ALL = "*"
_PAYLOAD_KEYS = {"ACLAuthMethod": "AuthMethod", "HostVolume": "Volume"}
"""Topics whose payload has another key."""


class TopicFilter:
    """Chooses events by `topic=Topic[:key]` parameters (none: everything) and a namespace."""

    def __init__(self, topics: Sequence[str], namespace: str) -> None:
        self._keys: dict[str, set[str]] = {}
        self._namespace = namespace
        for text in topics or (ALL,):
            topic, _, key = text.partition(":")
            self._keys.setdefault(topic, set()).add(key or ALL)

    def wants(self, event: Event) -> bool:
        if event.namespace and self._namespace not in (ALL, event.namespace):
            return False
        keys = self._keys.get(event.topic, set()) | self._keys.get(ALL, set())
        return ALL in keys or event.key in keys or not keys.isdisjoint(event.filter_keys)


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


async def stream(call: ApiCall) -> Response:
    """Sends events from `index` on; without one, or with one that is too old, from the oldest
    kept."""
    asked = call.query.get("index") or "0"
    index = whole_number(asked)
    if index is None or index < 0:
        shown = json.dumps(asked)
        raise InvalidInputError(
            f"Unable to parse index: strconv.Atoi: parsing {shown}: invalid syntax"
        )
    topics = call.request.query_params.getlist("topic")
    if not _may_follow(call, topics):
        return Response(b"", headers=VARY, media_type="application/json")
    wanted = TopicFilter(topics, call.namespace)
    objects = StateObjects(call.context.snapshot)

    def is_told(event: Event) -> bool:
        return wanted.wants(event) and sees_event(
            call.rights, event, partial(objects.namespace_of, ObjectKind.ROLLOUT)
        )

    def still_follows() -> bool:
        """A token may lose its rights while its stream goes on."""
        try:
            call.refresh_access()
        except AccessRefusedError:
            return False
        return _may_follow(call, topics)

    buffer = call.api.events
    start = index
    return StreamingResponse(
        lines(buffer, is_told, max(0, start - 1), still_follows),
        headers={**VARY, "Cache-Control": "no-cache"},
        media_type="application/json",
    )


def _may_follow(call: ApiCall, topics: Sequence[str]) -> bool:
    if call.rights.is_management:
        return True
    namespaces = [call.namespace]
    if call.namespaces is None:
        with call.context.snapshot() as snapshot:
            namespaces = [each.name for each in snapshot.namespaces.all()]
    return may_follow(
        call.rights, [text.partition(":")[0] for text in topics or (ALL,)], namespaces
    )


async def lines(
    buffer: EventBuffer,
    is_told: Callable[[Event], bool],
    after: int,
    still_follows: Callable[[], bool] = lambda: True,
) -> AsyncIterator[bytes]:
    """Yields the lines; ends when the server stops, when events were missed, or when the caller may
    not follow any more."""
    yield b"{}\n"
    gaps = buffer.gaps
    while not buffer.closed and buffer.gaps == gaps and still_follows():
        for batch in buffer.after(after):
            after = batch.index
            events = [event for event in batch.events if is_told(event)]
            if events:
                told = {"Index": batch.index, "Events": [told_event(event) for event in events]}
                yield nomad_json.encode(told) + b"\n"
        if not buffer.after(after) and not await buffer.wait(HEARTBEAT_S):
            yield b"{}\n"


ENDPOINTS = [endpoint("/v1/event/stream", get=stream)]
