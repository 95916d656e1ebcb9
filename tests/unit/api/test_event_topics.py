"""Which events a subscriber asked for."""

from __future__ import annotations

import asyncio
import json
import threading
import weakref
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from orchgit.api.encoded_events import PART_EVENTS
from orchgit.api.event_buffer import KEPT_BYTES, MAX_BATCHES, EventBuffer
from orchgit.api.routes.event_stream import TOO_SLOW, TopicFilter, lines
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


class BuiltBatch:
    """Notes which threads build its events."""

    def __init__(self, index: int, count: int) -> None:
        self.index = index
        self.threads: list[int] = []
        self._events = [
            Event("Allocation", "x", f"a{place}", "default", ["web"], index)
            for place in range(count)
        ]

    @property
    def events(self) -> list[Event]:
        self.threads.append(threading.get_ident())
        return self._events


async def line_of(stream: AsyncIterator[bytes]) -> dict[str, Any]:
    """Returns the next line, of one part or of many."""
    parts = [await anext(stream)]
    while not parts[-1].endswith(b"\n"):
        parts.append(await anext(stream))
    found: dict[str, Any] = json.loads(b"".join(parts))
    return found


def test_events_are_encoded_once_for_all_readers_and_beside_the_loop() -> None:
    async def run() -> None:
        buffer, batch = EventBuffer(), BuiltBatch(5, PART_EVENTS * 2 + 3)
        buffer.add(batch)
        everything = TopicFilter([], "default").wants
        last = TopicFilter([f"Allocation:a{PART_EVENTS * 2 + 2}"], "default").wants
        streams = [lines(buffer, everything, 0), lines(buffer, everything, 0)]
        streams.append(lines(buffer, last, 0))
        for stream in streams:
            assert await line_of(stream) == {}
        first, second, some = await asyncio.gather(*(line_of(stream) for stream in streams))
        assert first == second
        assert first["Index"] == 5
        keys = [each["Key"] for each in first["Events"]]
        assert keys == [f"a{place}" for place in range(PART_EVENTS * 2 + 3)]
        assert [each["Key"] for each in some["Events"]] == keys[-1:]
        assert len(batch.threads) == 1
        assert threading.get_ident() not in batch.threads

    asyncio.run(run())


def test_encoded_batches_are_kept_for_no_longer_than_the_buffer_has_batches() -> None:
    """Batches without events have no size that would count."""

    async def run() -> None:
        buffer = EventBuffer()
        buffer.add(Batch(1))
        first = weakref.ref(buffer.after(0)[0].encoded())
        for index in range(2, MAX_BATCHES + 2):
            assert first() is not None
            buffer.add(Batch(index))
            buffer.after(index - 1)[0].encoded()
        assert first() is None

    asyncio.run(run())


def test_reader_that_leaves_while_events_are_encoded_takes_none_from_others() -> None:
    async def run() -> None:
        buffer = EventBuffer()
        buffer.add(BuiltBatch(5, PART_EVENTS + 1))
        streams = [lines(buffer, TopicFilter([], "default").wants, 0) for _ in range(2)]
        for stream in streams:
            assert await line_of(stream) == {}
        leaving, staying = (asyncio.ensure_future(line_of(stream)) for stream in streams)
        await asyncio.sleep(0)
        leaving.cancel()
        assert len((await staying)["Events"]) == PART_EVENTS + 1
        assert leaving.cancelled()

    asyncio.run(run())


def test_reader_that_is_too_slow_is_told_so_and_ended() -> None:
    async def run() -> None:
        buffer = EventBuffer()
        buffer.add(Batch(1, [EVENT]))
        slow = lines(buffer, TopicFilter([], "default").wants, 0)
        assert await line_of(slow) == {}
        assert (await line_of(slow))["Index"] == 1
        for index in range(2, MAX_BATCHES + 3):
            buffer.add(Batch(index, [EVENT]))
        told = await line_of(slow)
        assert told == {"Error": TOO_SLOW.format(2)}
        assert await anext(slow, b"ended") == b"ended"

    asyncio.run(run())


def test_reader_that_keeps_its_place_in_the_buffer_misses_nothing() -> None:
    async def run() -> None:
        buffer = EventBuffer()
        stream = lines(buffer, TopicFilter([], "default").wants, 0)
        assert await line_of(stream) == {}
        for index in range(1, MAX_BATCHES * 2):
            buffer.add(Batch(index, [EVENT]))
            if index >= MAX_BATCHES:
                assert (await line_of(stream))["Index"] == index + 1 - MAX_BATCHES

    asyncio.run(run())


def test_batches_that_are_encoded_take_a_bounded_room() -> None:
    async def run() -> None:
        buffer = EventBuffer()
        wide = Event("Job", "x", "j" * (KEPT_BYTES // 8), "default", [], 1)
        stream = lines(buffer, TopicFilter([], "default").wants, 0)
        assert await line_of(stream) == {}
        kept = []
        for index in range(1, 20):
            buffer.add(Batch(index, [wide]))
            assert (await line_of(stream))["Index"] == index
            kept.append(weakref.ref(buffer.after(index - 1)[0].encoded()))
        assert 2 <= sum(each() is not None for each in kept) <= 10

    asyncio.run(run())
