"""Structs to bytes and back, with a limit on size.

One encoder for all; one decoder per type, made once. What cannot be decoded is an
InvalidInputError: the peer sent it, so the peer hears of it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from orchgit.errors import InvalidInputError, TooLargeError

MAX_MESSAGE_BYTES = 64 * 1024 * 1024

_ENCODER = msgspec.msgpack.Encoder()


@cache
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind)


def encode(message: object) -> bytes:
    """Raises TooLargeError where the other side would refuse the message."""
    data = _ENCODER.encode(message)
    if len(data) > MAX_MESSAGE_BYTES:
        raise TooLargeError(
            f"cannot send a message of {len(data)} bytes: the limit is {MAX_MESSAGE_BYTES}"
        )
    return data


def decode(kind: Any, data: bytes) -> Any:
    """One message of type `kind` (a struct or a union of tagged structs)."""
    try:
        return _decoder(kind).decode(data)
    except msgspec.DecodeError as error:
        raise InvalidInputError(f"cannot read a message of the peer: {error}") from None
