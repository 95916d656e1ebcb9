"""What a stranger may send to a port: noise, halves of the truth, announcements not kept."""

from __future__ import annotations

import random
import socket
import struct

TLS_HELLO = bytes.fromhex("160301020001000100") + bytes(300)
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def noise(chance: random.Random, limit: int = 2000) -> bytes:
    return chance.randbytes(chance.randrange(1, limit))


def damaged(chance: random.Random, data: bytes) -> bytes:
    """Some bits flipped, a piece cut out, or doubled."""
    copy = bytearray(data)
    for _ in range(chance.randrange(1, 5)):
        copy[chance.randrange(len(copy))] ^= 1 << chance.randrange(8)
    place = chance.randrange(len(copy))
    if chance.random() < 0.3:
        del copy[place : place + chance.randrange(1, 9)]
    elif chance.random() < 0.3:
        copy[place:place] = copy[: chance.randrange(1, 99)]
    return bytes(copy)


def huge(chance: random.Random) -> bytes:
    """The head of something big, and little more."""
    return struct.pack(">I", chance.randrange(1 << 20, 1 << 32)) + noise(chance, 100)


def random_msgpack(chance: random.Random, depth: int = 0) -> bytes:
    """Well-formed for the most part, of no known type; sometimes nested very deeply."""
    kind = chance.randrange(10)
    if depth == 0 and kind == 0:
        return b"\x91" * chance.choice((50, 5_000, 100_000)) + b"\x01"
    if kind == 1 and depth < 4:
        count = chance.randrange(15)
        return bytes([0x90 | count]) + b"".join(
            random_msgpack(chance, depth + 1) for _ in range(count)
        )
    if kind in (2, 3) and depth < 4:
        count = chance.randrange(15)
        return bytes([0x80 | count]) + b"".join(
            random_msgpack(chance, depth + 2) for _ in range(2 * count)
        )
    if kind == 4:
        return b"\xdd" + struct.pack(">I", chance.randrange(1 << 32))
    if kind == 5:
        return b"\xc9" + struct.pack(">I", 4) + b"\x01abcd"
    if kind == 6:
        text = noise(chance, 30)[:31]
        return bytes([0xA0 | len(text)]) + text
    if kind == 7:
        return b"\xcf" + noise(chance, 30)[:8].ljust(8, b"\xff")
    return bytes([chance.randrange(256)])


def sent(address: str, data: bytes, timeout_s: float = 10.0) -> None:
    """To a new connection, which the other side may end at any time."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout_s) as channel:
        try:
            channel.sendall(data)
        except OSError:
            return
