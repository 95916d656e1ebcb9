"""Strangers at the raft port and the RPC port: nothing breaks, nothing grows, nothing is run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import msgspec
import psutil
import pytest

from orchgit.raft import messages as raft_messages
from orchgit.raft.messages import Append, LogEntry, TimeoutNow
from orchgit.raft_transport.inbound import MAX_INBOUND, PROTOCOL
from orchgit.raft_transport.link import Greeting
from orchgit.wire import methods
from tests.integration.test_raft_transport import frame, pair
from tests.support.certificates import make_tls_files
from tests.support.port_fuzz import (
    HTTP2_PREFACE,
    TLS_HELLO,
    damaged,
    huge,
    noise,
    random_msgpack,
    sent,
)
from tests.support.server_rig import ServerRig, server_rig

ROUNDS = 400
MAX_GROWTH_BYTES = 64 << 20


def _memory() -> int:
    return psutil.Process(os.getpid()).memory_info().rss


def _attack(chance: random.Random, hello: bytes) -> bytes:
    message = frame(raft_messages.encode(Append(1, 1, 1, [LogEntry(1, b"x" * 50)], 1, 1)))
    return chance.choice(
        (
            lambda: noise(chance),
            lambda: huge(chance),
            lambda: TLS_HELLO,
            lambda: HTTP2_PREFACE + noise(chance),
            lambda: damaged(chance, hello + message),
            lambda: hello + noise(chance),
            lambda: hello + huge(chance),
            lambda: hello + damaged(chance, message),
            lambda: hello + frame(random_msgpack(chance)),
            # One element more than the message has, nested as deep as can be.
            lambda: hello + frame(b"\x93\x09\x01" + b"\x91" * 100_000 + b"\x01"),
            lambda: hello + b"\x40\x00\x00\x08" + noise(chance, 9),
            lambda: b"\x00\x00\x00\x00" * 500,
        )
    )()


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "tls"])
def test_raft_port_survives_malformed_messages(tmp_path: Path, secured: bool) -> None:
    """Ended are the connections that sent it; members are heard meanwhile and after."""
    tls = make_tls_files(tmp_path) if secured else None
    chance = random.Random(20_261)
    with pair(tls, tls) as both:
        hello = frame(msgspec.msgpack.encode(Greeting(PROTOCOL, "c", *both.names)))
        before = _memory()
        for number in range(ROUNDS):
            sent(both.names[1], _attack(chance, hello))
            if number % 100 == 0:
                assert both.send_until_it_arrives(TimeoutNow(number))
        assert both.send_until_it_arrives(TimeoutNow(77))
        assert _memory() - before < MAX_GROWTH_BYTES
        while not both.inbox.empty():
            sender, message = both.inbox.get()
            assert sender == both.names[0]
            assert isinstance(message, raft_messages.Message)


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "tls"])
def test_silent_connections_to_the_raft_port_do_not_block_members(
    tmp_path: Path, secured: bool
) -> None:
    """More connections than there are places, which say nothing, or very little very slowly."""
    tls = make_tls_files(tmp_path) if secured else None
    with pair(tls, tls) as both:
        host, _, port = both.names[1].rpartition(":")
        silent = [socket.create_connection((host, int(port)), 10) for _ in range(MAX_INBOUND + 40)]
        over = threading.Event()
        slow = threading.Thread(target=_say_little, args=(silent, over))
        slow.start()
        try:
            assert both.send_until_it_arrives(TimeoutNow(5)) == (both.names[0], TimeoutNow(5))
        finally:
            over.set()
            slow.join()
            for channel in silent:
                channel.close()


def _say_little(channels: list[socket.socket], over: threading.Event) -> None:
    """A byte of "I am still here" each second."""
    while not over.wait(1.0):
        for channel in channels:
            with contextlib.suppress(OSError):
                channel.send(b"\x00")


# -- RPC -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    with server_rig(tmp_path_factory.mktemp("rpc"), with_agent=False, num_schedulers=0) as found:
        yield found


METHODS = [
    one
    for one in vars(methods).values()
    if isinstance(one, methods.UnaryMethod | methods.StreamMethod)
]


def test_rpc_port_survives_malformed_messages(rig: ServerRig) -> None:
    chance = random.Random(4647)
    address = rig.server.rpc_address
    before = _memory()
    for _ in range(ROUNDS // 2):
        attack = chance.choice((noise, huge, lambda _: TLS_HELLO))
        sent(address, chance.choice((b"", HTTP2_PREFACE)) + attack(chance))
    rig.run(_call_with_garbage(address, chance))
    rig.run(rig.server.state.writer.barrier())
    assert rig.http.get("/v1/status/leader").status_code == 200
    assert rig.http.get("/v1/jobs").json() == [], "something was run"
    assert _memory() - before < MAX_GROWTH_BYTES


async def _call_with_garbage(address: str, chance: random.Random) -> None:
    """Every method is answered with an error of the caller, none with one of the server."""
    async with grpc.aio.insecure_channel(address) as channel:
        for method in METHODS:
            for _ in range(15):
                data = chance.choice((random_msgpack, noise))(chance)
                code, text = await _called(channel, method, data)
                known = code is not grpc.StatusCode.UNKNOWN and code is not None
                assert known, f"{method.path}: {code} {text} for {data[:60]!r}"


async def _called(channel: Any, method: Any, data: bytes) -> tuple[grpc.StatusCode | None, str]:
    try:
        async with asyncio.timeout(60):
            if isinstance(method, methods.UnaryMethod):
                await channel.unary_unary(method.path)(data)
            else:
                call = channel.stream_stream(method.path)(iter([data]))
                async for _ in call:
                    break
                call.cancel()
    except grpc.aio.AioRpcError as error:
        return error.code(), error.details() or ""
    return grpc.StatusCode.OK, ""
