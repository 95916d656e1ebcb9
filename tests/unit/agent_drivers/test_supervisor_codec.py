"""The supervisor's codec against msgspec's MessagePack, and against nonsense."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.supervisor.codec import CodecError, frame, pack, take_frame, unpack

_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.text(max_size=400)
    | st.binary(max_size=400)
)
_VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=25
)


@settings(max_examples=100, deadline=None)
@given(_VALUES)
def test_message_survives_encoding_and_decoding(value: object) -> None:
    assert msgspec.msgpack.decode(pack(value)) == value
    assert unpack(msgspec.msgpack.encode(value)) == value


@pytest.mark.parametrize("size", [0, 31, 32, 255, 256, 65535, 65536])
def test_every_length_encoding(size: int) -> None:
    for value in ("x" * size, b"x" * size, [1] * size, {str(n): n for n in range(size)}):
        assert msgspec.msgpack.decode(pack(value)) == value
        assert unpack(msgspec.msgpack.encode(value)) == value


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_nonsense_is_a_codec_error_or_a_value(data: bytes) -> None:
    try:
        value = unpack(data)
    except CodecError:
        return
    assert unpack(pack(value)) == value


def test_bytes_that_are_no_text_are_kept() -> None:
    """Paths and environments may hold any bytes."""
    odd = b"\xff\xfe".decode("utf-8", "surrogateescape")
    assert unpack(pack(odd)) == odd


@pytest.mark.parametrize("value", [1.5, {1: 2}.keys(), 1 << 64, object()])
def test_value_that_the_codec_cannot_carry_is_refused(value: object) -> None:
    with pytest.raises(CodecError, match="cannot encode"):
        pack(value)


@pytest.mark.parametrize(
    "data", [b"\x91" * 200 + b"\xc0", b"\x81\x01\x02", b"\xc0\xc0", b"\xca0000"]
)
def test_deep_long_and_odd_messages_are_refused(data: bytes) -> None:
    with pytest.raises(CodecError, match="cannot decode"):
        unpack(data)


@settings(max_examples=50, deadline=None)
@given(st.lists(_VALUES, min_size=1, max_size=5), st.integers(1, 7))
def test_frames_may_come_in_any_pieces(values: list[object], piece: int) -> None:
    data = b"".join(frame({"v": value}) for value in values)
    buffer, taken = bytearray(), []
    for at in range(0, len(data), piece):
        buffer += data[at : at + piece]
        while (message := take_frame(buffer)) is not None:
            taken.append(message)
    assert taken == [{"v": value} for value in values]
    assert not buffer


def test_huge_frame_is_refused_before_it_is_read() -> None:
    with pytest.raises(CodecError, match="cannot read a message"):
        take_frame(bytearray(b"\xff\xff\xff\xff"))
    with pytest.raises(CodecError, match="cannot send"):
        frame("x" * (9 << 20))
