"""Messages arrive whole and in order, however the bytes are cut up on their way."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.wire.pipe import Pipe


class _Told:
    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.changed = asyncio.Event()
        self.is_lost = False

    def receive(self, messages: list[Any]) -> None:
        self.messages += messages
        self.changed.set()

    def lose(self) -> None:
        self.is_lost = True
        self.changed.set()

    async def until(self, enough: int) -> None:
        while len(self.messages) < enough and not self.is_lost:
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), 60)


def _frame(messages: list[str]) -> bytes:
    body = msgspec.msgpack.encode(messages)
    return len(body).to_bytes(4, "big") + body


async def _receive(data: bytes, cuts: list[int], enough: int) -> _Told:
    told = _Told()
    here, there = socket.socketpair()
    pipe = await Pipe.over(here, str, told.receive, told.lose)
    there.setblocking(False)
    loop = asyncio.get_running_loop()
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in itertools.pairwise(edges):
        await loop.sock_sendall(there, data[start:end])
        await asyncio.sleep(0)
    await told.until(enough)
    there.close()
    pipe.close()
    return told


@given(
    frames=st.lists(
        st.lists(st.sampled_from(["", "short", "x" * 5_000, "y" * 150_000])), max_size=5
    ),
    cuts=st.lists(st.integers(0, 1 << 20), max_size=6),
)
@settings(max_examples=50, deadline=None)
@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_frames_cut_anywhere_arrive_whole_and_in_order(
    new_loop: Callable[[], asyncio.AbstractEventLoop], frames: list[list[str]], cuts: list[int]
) -> None:
    """The server's end is on uvloop, the worker's on asyncio."""
    sent = [message for frame in frames for message in frame]
    data = b"".join(map(_frame, frames))
    with asyncio.Runner(loop_factory=new_loop) as runner:
        told = runner.run(_receive(data, cuts, len(sent)))
    assert told.messages == sent


@pytest.mark.parametrize("body", [b"\xc1", msgspec.msgpack.encode([1])])
def test_unreadable_frame_ends_the_connection(body: bytes) -> None:
    data = _frame(["good"]) + len(body).to_bytes(4, "big") + body + _frame(["late"])
    told = asyncio.run(_receive(data, [], 3))
    assert told.is_lost
    assert told.messages == ["good"]
