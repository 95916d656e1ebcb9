"""The event stream: newline-delimited JSON, `{}` at once and whenever nothing happened for long."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

import structlog
from starlette.responses import Response, StreamingResponse

from orchgit.api.access.objects import StateObjects
from orchgit.api.access.requirements import ObjectKind
from orchgit.api.access.topics import may_follow, sees_event
from orchgit.api.call import ApiCall
from orchgit.api.encoded_events import EncodedBatch
from orchgit.api.errors import VARY
from orchgit.api.event_buffer import EventBuffer
from orchgit.api.routing import endpoint
from orchgit.api.shapes import nomad_json
from orchgit.errors import InvalidInputError
from orchgit.model.event import Event
from orchgit.whole_number import whole_number

HEARTBEAT_S = 30.0
ALL = "*"
TOO_SLOW = (
    "cannot tell all events: the server keeps too few for a reader this slow; "
    "read the state again, then subscribe; what was not sent begins at index {} or later"
)
_log = structlog.get_logger(component="events")


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


async def stream(call: ApiCall) -> Response:
    """Sends events from `index` on; without one, or with one that is too old, from the oldest kept.

    The leader answers: an index that its state has not reached is of another state, which was lost
    or replaced by a backup; its reader begins with the oldest event kept, too.
    """
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
        return call.keeps_access() and _may_follow(call, topics)

    with call.context.snapshot() as snapshot:
        after = index - 1 if 0 < index <= snapshot.index + 1 else 0
    return StreamingResponse(
        lines(call.api.events, is_told, after, still_follows),
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
    """Yields the lines, long ones in parts. Ends when the server stops, when the state was
    replaced, when the caller may not follow any more, and, with a line that says so, when the
    reader is so slow that the buffer has lost events that it did not read yet."""
    yield b"{}\n"
    gaps, after = buffer.gaps, max(after, buffer.dropped_index)
    while not buffer.closed and buffer.gaps == gaps and still_follows():
        if after < buffer.dropped_index:
            _log.warning("a slow reader of the event stream was ended", index=after)
            yield nomad_json.encode({"Error": TOO_SLOW.format(after + 1)}) + b"\n"
            return
        for batch in buffer.after(after)[:1]:
            async for part in _line(batch.index, batch.encoded(), is_told):
                yield part
            after = batch.index
        if not buffer.after(after) and not await buffer.wait(HEARTBEAT_S):
            yield b"{}\n"


async def _line(
    index: int, batch: EncodedBatch, is_told: Callable[[Event], bool]
) -> AsyncIterator[bytes]:
    """Yields the parts of one batch's line; nothing where no event of it is told."""
    number, written = 0, b""
    while part := await batch.part(number):
        found = b",".join(each.data for each in part if is_told(each.event))
        if found and written:
            yield written
            written = b"," + found
        elif found:
            written = b'{"Index":%d,"Events":[%b' % (index, found)
        number += 1
        await asyncio.sleep(0)  # what is encoded already waits for nothing
    if written:
        yield written + b"]}\n"


ENDPOINTS = [endpoint("/v1/event/stream", get=stream)]
