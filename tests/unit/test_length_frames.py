"""Frames arrive whole and in order, however their bytes are cut; too long ones are refused."""

from __future__ import annotations

import asyncio
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.length_frames import (
    FrameError,
    frame,
    frame_header,
    read_frame,
    receive_frame,
    take_frame,
    take_frames,
)


@settings(max_examples=50)
@given(st.lists(st.binary(max_size=300), max_size=6), st.integers(1, 50))
def test_frames_cut_into_pieces_are_reassembled(bodies: list[bytes], piece: int) -> None:
    data = b"".join(map(frame, bodies))
    buffer, taken = bytearray(), []
    for at in range(0, len(data), piece):
        buffer += data[at : at + piece]
        taken += take_frames(buffer, 300)
    assert taken == bodies
    assert not buffer


def test_taking_one_frame_leaves_the_rest_buffered() -> None:
    buffer = bytearray(frame(b"one") + frame(b"two")[:-1])
    assert take_frame(buffer, 10) == b"one"
    assert take_frame(buffer, 10) is None
    assert buffer == frame(b"two")[:-1]


def test_stream_that_ends_inside_a_frame_raises_end_of_file() -> None:
    stream = io.BytesIO(frame(b"one") + frame(b"two")[:-1])
    assert read_frame(stream) == b"one"
    with pytest.raises(EOFError):
        read_frame(stream)


def test_reader_receives_frames_until_its_end() -> None:
    async def run() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(frame(b"") + frame(b"two"))
        reader.feed_eof()
        assert [await receive_frame(reader, 3) for _ in range(2)] == [b"", b"two"]
        with pytest.raises(EOFError):
            await receive_frame(reader, 3)

    asyncio.run(run())


def test_frame_over_the_limit_is_refused_before_its_body_comes() -> None:
    header = frame_header(4, 4)

    async def receive() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(header)
        await receive_frame(reader, 3)

    with pytest.raises(FrameError, match="the limit is 3"):
        take_frames(bytearray(header), 3)
    with pytest.raises(FrameError):
        read_frame(io.BytesIO(header), 3)
    with pytest.raises(FrameError):
        asyncio.run(receive())
    with pytest.raises(FrameError):
        frame(b"four", 3)
