"""The machine's authorities: how often their files are read."""

from __future__ import annotations

import asyncio
import itertools
import ssl
import threading

import pytest

from orchgit.clock import FakeClock
from orchgit.wire.machine_authorities import READ_AGAIN_S, MachineAuthorities

_PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def test_connections_at_once_share_one_read_on_a_thread() -> None:
    threads: list[threading.Thread] = []

    def read() -> ssl.SSLContext:
        threads.append(threading.current_thread())
        return _PLAIN

    async def scenario() -> None:
        authorities = MachineAuthorities(read)
        found = await asyncio.gather(*(authorities.context() for _ in range(64)))
        assert all(each is _PLAIN for each in found)
        assert await authorities.context() is _PLAIN

    asyncio.run(scenario())
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


def test_connections_of_another_protocol_have_a_context_of_their_own() -> None:
    reads = itertools.count()

    def read() -> ssl.SSLContext:
        next(reads)
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    async def scenario() -> None:
        authorities = MachineAuthorities(read)
        plain, http2 = await authorities.context(), await authorities.context("h2")
        assert plain is not http2
        assert await authorities.context() is plain
        assert await authorities.context("h2") is http2
        assert next(reads) == 2

    asyncio.run(scenario())


def test_authorities_are_read_again_after_an_hour() -> None:
    reads, clock = itertools.count(), FakeClock()

    def read() -> ssl.SSLContext:
        next(reads)
        return _PLAIN

    async def scenario() -> None:
        authorities = MachineAuthorities(read, clock.monotonic_s)
        for _ in range(3):
            await authorities.context()
            await clock.advance(READ_AGAIN_S / 2)
        assert next(reads) == 2

    asyncio.run(scenario())


def test_failed_read_is_told_and_tried_again() -> None:
    answers: list[ssl.SSLContext | OSError] = [OSError("no such file"), _PLAIN]

    def read() -> ssl.SSLContext:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    async def scenario() -> None:
        authorities = MachineAuthorities(read)
        with pytest.raises(OSError, match="no such file"):
            await authorities.context()
        assert await authorities.context() is _PLAIN

    asyncio.run(scenario())


def test_caller_that_gives_up_leaves_the_read_to_the_others() -> None:
    go_on = threading.Event()

    def read() -> ssl.SSLContext:
        go_on.wait()
        return _PLAIN

    async def scenario() -> None:
        authorities = MachineAuthorities(read)
        first, second = (asyncio.ensure_future(authorities.context()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        go_on.set()
        assert await second is _PLAIN
        assert first.cancelled()

    asyncio.run(scenario())
