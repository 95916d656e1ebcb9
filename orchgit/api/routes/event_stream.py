"""The event stream: newline-delimited JSON, `{}` at once and whenever nothing happened for long."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from starlette.responses import Response, StreamingResponse

from orchgit.api import nomad_json
from orchgit.api.call import Call
from orchgit.api.errors import VARY
from orchgit.api.event_buffer import EventBuffer
from orchgit.api.routing import endpoint
from orchgit.errors import InvalidInputError
from orchgit.model.event import Event
from orchgit.whole_number import whole_number

HEARTBEAT_S = 30.0
ALL = "*"


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


async def stream(call: Call) -> Response:
    index = whole_number(call.query.get("index") or "0")
    if index is None or index < 0:
        raise InvalidInputError("Unable to parse index: it is not a number")
    wanted = TopicFilter(call.request.query_params.getlist("topic"), call.namespace)
    buffer = call.context.events
    start = index or buffer.last_index + 1
    return StreamingResponse(
        lines(buffer, wanted, start - 1),
        headers={**VARY, "Cache-Control": "no-cache"},
        media_type="application/json",
    )


async def lines(buffer: EventBuffer, wanted: TopicFilter, after: int) -> AsyncIterator[bytes]:
    """Ends when the server stops, or when events were missed."""
    yield b"{}\n"
    gaps = buffer.gaps
    while not buffer.closed and buffer.gaps == gaps:
        for batch in buffer.after(after):
            after = batch.index
            events = [event for event in batch.events if wanted.wants(event)]
            if events:
                yield nomad_json.encode({"Index": batch.index, "Events": events}) + b"\n"
        if not buffer.after(after) and not await buffer.wait(HEARTBEAT_S):
            yield b"{}\n"


ENDPOINTS = [endpoint("/v1/event/stream", get=stream)]
