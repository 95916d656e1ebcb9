"""The part of MessagePack that the supervisor speaks, without any import.

Values are None, bool, int, str, bytes, list and dict. Floats and extensions are refused: durations
travel as integers with their unit in the name. Frames are a 4-byte big-endian length and a value.
"""

from __future__ import annotations

MAX_FRAME_BYTES = 8 << 20


class CodecError(ValueError):
    """Bytes that are not a value of this codec, or a value it cannot carry."""


def frame(value: object) -> bytes:
    """One message as it goes over the socket."""
    body = pack(value)
    if len(body) > MAX_FRAME_BYTES:
        raise CodecError(f"cannot send {len(body)} bytes in one message: {MAX_FRAME_BYTES} at most")
    return len(body).to_bytes(4, "big") + body


def take_frame(buffer: bytearray) -> object | None:
    """Remove the first whole message from `buffer` and return it; None when none is whole yet."""
    if len(buffer) < 4:
        return None
    size = int.from_bytes(buffer[:4], "big")
    if size > MAX_FRAME_BYTES:
        raise CodecError(f"cannot read a message of {size} bytes: {MAX_FRAME_BYTES} at most")
    if len(buffer) < 4 + size:
        return None
    value = unpack(bytes(buffer[4 : 4 + size]))
    del buffer[: 4 + size]
    return value


def pack(value: object) -> bytes:
    out = bytearray()
    _pack_into(out, value)
    return bytes(out)


def _pack_into(out: bytearray, value: object) -> None:
    if value is None:
        out.append(0xC0)
    elif isinstance(value, bool):
        out.append(0xC3 if value else 0xC2)
    elif isinstance(value, int):
        _pack_int(out, value)
    elif isinstance(value, str):
        raw = value.encode("utf-8", "surrogateescape")
        _pack_head(out, len(raw), (0xA0, 32), (0xD9, 0xDA, 0xDB))
        out += raw
    elif isinstance(value, bytes):
        _pack_head(out, len(value), (0, 0), (0xC4, 0xC5, 0xC6))
        out += value
    elif isinstance(value, list | tuple):
        _pack_head(out, len(value), (0x90, 16), (0, 0xDC, 0xDD))
        for item in value:
            _pack_into(out, item)
    elif isinstance(value, dict):
        _pack_head(out, len(value), (0x80, 16), (0, 0xDE, 0xDF))
        for key, item in value.items():
            _pack_into(out, key)
            _pack_into(out, item)
    else:
        raise CodecError(f"cannot encode a value of type {type(value).__name__}")


def _pack_int(out: bytearray, value: int) -> None:
    if 0 <= value < 128 or -32 <= value < 0:
        out.append(value & 0xFF)
    elif -(1 << 63) <= value < (1 << 63):
        out.append(0xD3)
        out += value.to_bytes(8, "big", signed=True)
    elif 0 <= value < (1 << 64):
        out.append(0xCF)
        out += value.to_bytes(8, "big")
    else:
        raise CodecError(f"cannot encode {value}: integers have 64 bits")


def _pack_head(
    out: bytearray, size: int, fixed: tuple[int, int], codes: tuple[int, int, int]
) -> None:
    """The length of a string, list or map: in the first byte if it fits, else 1, 2 or 4 bytes."""
    base, limit = fixed
    if size < limit:
        out.append(base | size)
        return
    for code, width in zip(codes, (1, 2, 4), strict=True):
        if code and size < 1 << (8 * width):
            out.append(code)
            out += size.to_bytes(width, "big")
            return
    raise CodecError(f"cannot encode {size} items: the limit is 2**32")


def unpack(data: bytes) -> object:
    """The one value that `data` holds, no more and no less."""
    value, end = _Reader(data).value(0)
    if end != len(data):
        raise CodecError(f"cannot decode: {len(data) - end} bytes too many")
    return value


_INT_WIDTHS = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: -1, 0xD1: -2, 0xD2: -4, 0xD3: -8}
_TEXT_WIDTHS = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_BYTES_WIDTHS = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_LIST_WIDTHS = {0xDC: 2, 0xDD: 4}
_MAP_WIDTHS = {0xDE: 2, 0xDF: 4}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_MAX_DEPTH = 32


class _Reader:
    """Walks one message; every method takes a position and returns (value, next position)."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._depth = 0

    def value(self, at: int) -> tuple[object, int]:
        code = self._take(at, 1)[0]
        at += 1
        if code < 0x80:
            return code, at
        if code >= 0xE0:
            return code - 256, at
        if code < 0x90:
            return self._map(at, code & 0x0F)
        if code < 0xA0:
            return self._list(at, code & 0x0F)
        if code < 0xC0:
            return self._text(at, code & 0x1F)
        if code in _CONSTANTS:
            return _CONSTANTS[code], at
        return self._long(code, at)

    def _long(self, code: int, at: int) -> tuple[object, int]:
        if code in _INT_WIDTHS:
            width = _INT_WIDTHS[code]
            raw = self._take(at, abs(width))
            return int.from_bytes(raw, "big", signed=width < 0), at + abs(width)
        for widths, read in (
            (_TEXT_WIDTHS, self._text),
            (_BYTES_WIDTHS, self._bytes),
            (_LIST_WIDTHS, self._list),
            (_MAP_WIDTHS, self._map),
        ):
            if code in widths:
                width = widths[code]
                return read(at + width, int.from_bytes(self._take(at, width), "big"))
        raise CodecError(f"cannot decode: byte 0x{code:02x} starts no value of this codec")

    def _take(self, at: int, size: int) -> bytes:
        raw = self._data[at : at + size]
        if len(raw) < size:
            raise CodecError("cannot decode: the message ends inside a value")
        return raw

    def _text(self, at: int, size: int) -> tuple[object, int]:
        return self._take(at, size).decode("utf-8", "surrogateescape"), at + size

    def _bytes(self, at: int, size: int) -> tuple[object, int]:
        return self._take(at, size), at + size

    def _list(self, at: int, size: int) -> tuple[object, int]:
        self._enter()
        items = []
        for _ in range(size):
            item, at = self.value(at)
            items.append(item)
        self._depth -= 1
        return items, at

    def _map(self, at: int, size: int) -> tuple[object, int]:
        self._enter()
        pairs = {}
        for _ in range(size):
            key, at = self.value(at)
            if not isinstance(key, str):
                raise CodecError("cannot decode: the keys of a map must be strings")
            pairs[key], at = self.value(at)
        self._depth -= 1
        return pairs, at

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise CodecError(f"cannot decode: nested deeper than {_MAX_DEPTH}")
