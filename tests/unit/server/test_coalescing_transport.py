"""Writes of one turn of the event loop leave together, in order, and none is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from orchgit.server.http.coalescing_transport import CoalescingTransport


class Wire(asyncio.Transport):
    """What was written, and when it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[bytes] = []
        self.gone = False

    def is_closing(self) -> bool:
        return self.gone

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.seen.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.seen.append(b"<closed>")


def seen_after(write: Callable[[CoalescingTransport], None]) -> list[bytes]:
    """What leaves by the end of the turn."""

    async def scenario() -> list[bytes]:
        wire = Wire()
        write(CoalescingTransport(wire))
        await asyncio.sleep(0)
        return wire.seen

    return asyncio.run(scenario())


def test_head_and_body_are_one_write() -> None:
    def answer(connection: CoalescingTransport) -> None:
        connection.write(b"head ")
        connection.writelines([b"and ", b"body"])
        assert connection.get_write_buffer_size() == len(b"head and body")

    assert seen_after(answer) == [b"head and body"]


def test_head_alone_does_not_wait_for_a_body() -> None:
    assert seen_after(lambda connection: connection.write(b"head")) == [b"head"]


def test_held_writes_are_sent_before_closing() -> None:
    def answer(connection: CoalescingTransport) -> None:
        connection.write(b"last words")
        connection.close()

    assert seen_after(answer) == [b"last words", b"<closed>"]


def test_held_writes_are_dropped_when_the_peer_is_gone() -> None:
    async def scenario() -> list[bytes]:
        wire = Wire()
        CoalescingTransport(wire).write(b"too late")
        wire.gone = True
        await asyncio.sleep(0)
        return wire.seen

    assert asyncio.run(scenario()) == []


@pytest.mark.parametrize("pieces", [3, 40])
def test_large_write_is_passed_on_at_once(pieces: int) -> None:
    """The transport has to see it, to make a fast writer wait for a slow reader."""

    def answer(connection: CoalescingTransport) -> None:
        for number in range(pieces):
            connection.write(bytes([number]) * 50_000)
        assert connection.get_write_buffer_size() < 100_000

    seen = seen_after(answer)
    assert b"".join(seen) == b"".join(bytes([n]) * 50_000 for n in range(pieces))
