"""Frames: whatever way the bytes are cut, the same messages come out, and nothing too large."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchgit.raft_transport.frames import (
    LAST_PART,
    PART,
    PART_BYTES,
    STILL_HERE,
    WHOLE,
    FrameParser,
    frame,
)


def parts_of(message: bytes, size: int) -> list[bytes]:
    cuts = [message[at : at + size] for at in range(0, len(message), size)]
    return [frame(one, PART) for one in cuts[:-1]] + [frame(cuts[-1], LAST_PART)]


@given(st.data())
def test_messages_are_parsed_however_the_bytes_are_cut(data: st.DataObject) -> None:
    large = data.draw(st.binary(min_size=1, max_size=300))
    parts = parts_of(large, data.draw(st.integers(1, 100)))
    small = data.draw(st.lists(st.binary(min_size=1, max_size=50), max_size=8))
    frames: list[tuple[bytes, bytes | None]] = [(frame(one), one) for one in small]
    places = sorted(data.draw(st.integers(0, len(frames))) for _ in parts)
    for part, place in reversed(list(zip(parts, places, strict=True))):
        frames.insert(place, (part, large if part is parts[-1] else None))
    frames.insert(data.draw(st.integers(0, len(frames))), (STILL_HERE, None))
    parser, got = FrameParser(1000), []
    rest = b"".join(one for one, _ in frames)
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        parser.feed(rest[:size])
        rest = rest[size:]
        while (message := parser.message()) is not None:
            got.append(message)
    assert got == [message for _, message in frames if message is not None]


@pytest.mark.parametrize(
    "data",
    [
        frame(b"", 3),
        b"\xff\xff\xff\xff",
        (PART_BYTES + 1).to_bytes(4, "big"),
        (PART << 30 | PART_BYTES + 1).to_bytes(4, "big"),
    ],
    ids=["unknown kind", "huge", "a whole message over the limit", "a part over the limit"],
)
def test_invalid_frame_is_refused_by_its_head(data: bytes) -> None:
    parser = FrameParser(1 << 30)
    parser.feed(data)
    with pytest.raises(ValueError, match="a frame of kind"):
        parser.message()


def test_parts_beyond_the_limit_are_refused() -> None:
    parser = FrameParser(100)
    parser.feed(frame(b"x" * 60, PART) + frame(b"y" * 60, PART))
    with pytest.raises(ValueError, match="more than 100 bytes"):
        parser.message()


def test_raised_limit_holds_for_the_next_message() -> None:
    parser = FrameParser(10)
    parser.feed(frame(b"hello") + frame(b"x" * 50, WHOLE))
    assert parser.message() == b"hello"
    parser.limit = 50
    assert parser.message() == b"x" * 50
