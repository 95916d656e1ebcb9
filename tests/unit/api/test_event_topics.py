"""Which events a subscriber asked for."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from orchgit.api.event_buffer import MAX_BATCHES, EventBuffer
from orchgit.api.routes.event_stream import TopicFilter, lines
from orchgit.model.event import Event

EVENT = Event("Allocation", "x", "a1", "default", ["web", "n1"], 5)


class Batch(msgspec.Struct):
    index: int
    events: list[Event] = []


@pytest.mark.parametrize(
    ("topics", "namespace", "wanted"),
    [
        ([], "default", True),
        (["*"], "default", True),
        (["Allocation"], "default", True),
        (["Allocation:a1"], "default", True),
        (["Allocation:web"], "default", True),
        (["Allocation:other"], "default", False),
        (["Job"], "default", False),
        (["*:n1"], "default", True),
        (["Job", "Allocation:a1"], "default", True),
        ([], "other", False),
        ([], "*", True),
    ],
)
def test_topic_filter_chooses_events(topics: list[str], namespace: str, wanted: bool) -> None:
    assert TopicFilter(topics, namespace).wants(EVENT) is wanted


def test_events_without_a_namespace_are_for_everybody() -> None:
    assert TopicFilter([], "other").wants(Event("Node", "x", "n1"))


def test_buffer_keeps_the_newest_and_wakes_readers() -> None:
    async def run() -> None:
        buffer = EventBuffer()
        waiting = asyncio.create_task(buffer.wait(5))
        await asyncio.sleep(0)
        for index in range(1, MAX_BATCHES + 11):
            buffer.add(Batch(index))
        assert await waiting
        assert [batch.index for batch in buffer.after(MAX_BATCHES + 8)] == [
            MAX_BATCHES + 9,
            MAX_BATCHES + 10,
        ]
        assert buffer.after(0)[0].index == 11
        assert not await buffer.wait(0)
        buffer.close()
        assert buffer.closed

    asyncio.run(run())


def test_stream_ends_where_events_were_missed() -> None:
    """A snapshot replaced the state: the subscriber looks at the state, and subscribes again."""

    async def run() -> None:
        buffer = EventBuffer()
        buffer.add(Batch(5, [EVENT]))
        stream = lines(buffer, TopicFilter([], "default").wants, 4)
        assert await anext(stream) == b"{}\n"
        assert b'"Index":5' in await anext(stream)
        following = asyncio.ensure_future(anext(stream, b"ended"))
        await asyncio.sleep(0)
        buffer.miss()
        assert await following == b"ended"
        assert not buffer.after(0)

    asyncio.run(run())
