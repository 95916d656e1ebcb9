"""Messages over real sockets: they arrive, strangers do not get in, garbage hurts nobody."""

from __future__ import annotations

import os
import queue
import random
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from orchgit.clock import SystemClock
from orchgit.errors import InvalidInputError, RefusedError
from orchgit.ids import RandomIds
from orchgit.raft import messages as raft_messages
from orchgit.raft.messages import Append, LogEntry, Message, TimeoutNow
from orchgit.raft_transport.inbound import PROTOCOL
from orchgit.raft_transport.link import Greeting
from orchgit.raft_transport.poll_loop import PollLoop
from orchgit.raft_transport.tcp import TcpTransport
from orchgit.raft_transport.tls import client_context, names_host
from orchgit.raft_transport.transport import Receive
from orchgit.replication.replicated import ReplicatedState, ReplicationConfig
from orchgit.wire.tls import TlsFiles
from tests.support.certificates import Authority, make_tls_files
from tests.support.ports import free_addresses

WAIT_S = 30.0


class Talker:
    """A transport with the thread that it belongs to."""

    def __init__(self, name: str, tls: TlsFiles | None, receive: Receive) -> None:
        self.name = name
        self._transport = TcpTransport(name, "global", tls)
        self._loop = PollLoop()
        self._over = False
        self._transport.start(receive, self._loop)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over:
            self._loop.run_calls()
            self._transport.tick()
            self._transport.flush()
            self._loop.wait(0.02)

    def send(self, receiver: str, message: Message) -> None:
        self._loop.call(lambda: self._transport.send(receiver, message) or None)

    def close(self) -> None:
        self._over = True
        self._loop.wake()
        self._thread.join()
        self._transport.close()
        self._loop.close()


class Pair:
    """Two transports; `inbox` is what the second one received."""

    def __init__(self, tls: tuple[TlsFiles | None, TlsFiles | None]) -> None:
        self.names = free_addresses(2)
        self.inbox: queue.Queue[tuple[str, Message]] = queue.Queue()
        self.one = Talker(self.names[0], tls[0], lambda sender, message: None)
        self.two = Talker(
            self.names[1], tls[1], lambda sender, message: self.inbox.put((sender, message))
        )

    def send_until_it_arrives(self, message: Message) -> tuple[str, Message]:
        """What is sent before there is a connection is dropped, so it is sent again."""
        for _ in range(200):
            self.one.send(self.names[1], message)
            try:
                return self.inbox.get(timeout=0.05)
            except queue.Empty:
                continue
        raise AssertionError("nothing arrives")


@contextmanager
def pair(first: TlsFiles | None = None, second: TlsFiles | None = None) -> Iterator[Pair]:
    both = Pair((first, second))
    try:
        yield both
    finally:
        both.one.close()
        both.two.close()


def frame(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def is_closed(channel: socket.socket) -> bool:
    """By the other side, which may send a TLS alert before."""
    try:
        while channel.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


@pytest.mark.parametrize("secured", [False, True], ids=["plain", "tls"])
def test_messages_of_any_size_arrive_with_their_sender(tmp_path: Path, secured: bool) -> None:
    tls = make_tls_files(tmp_path) if secured else None
    with pair(tls, tls) as both:
        assert both.send_until_it_arrives(TimeoutNow(7)) == (both.names[0], TimeoutNow(7))
        big = Append(1, 2, 3, [LogEntry(1, os.urandom(5 << 20))], 4, 5)
        both.one.send(both.names[1], big)
        received = both.inbox.get(timeout=WAIT_S)
        while received[1] == TimeoutNow(7):
            received = both.inbox.get(timeout=WAIT_S)
        assert received == (both.names[0], big)


def test_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    ours, theirs = make_tls_files(tmp_path / "ours"), make_tls_files(tmp_path / "theirs")
    with pair(ours, ours) as both:
        host, port = both.names[1].split(":")
        context = client_context(theirs)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with socket.create_connection((host, int(port)), WAIT_S) as plain:
            with context.wrap_socket(plain) as channel:
                assert is_closed(channel)
        with socket.create_connection((host, int(port)), WAIT_S) as plain:
            plain.sendall(frame(msgspec.msgpack.encode(Greeting(PROTOCOL, "global", *both.names))))
            assert is_closed(plain)
        assert both.inbox.empty()


def test_agent_certificate_is_refused_at_the_raft_port(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    ours = authority.issue(tmp_path / "server", "127.0.0.1")
    agent = authority.issue(tmp_path / "agent", "127.0.0.1", role="client")
    with pair(ours, ours) as both:
        host, port = both.names[1].split(":")
        greeting = msgspec.msgpack.encode(Greeting(PROTOCOL, "global", *both.names))
        with socket.create_connection((host, int(port)), WAIT_S) as plain:
            with client_context(agent).wrap_socket(plain, server_hostname=host) as channel:
                channel.sendall(frame(greeting) + frame(raft_messages.encode(TimeoutNow(1))))
                assert is_closed(channel)
        assert both.inbox.empty()


@pytest.mark.parametrize("wrong", ["protocol", "cluster", "sender", "receiver"])
def test_wrong_greeting_closes_the_connection(wrong: str) -> None:
    with pair() as both:
        right = Greeting(PROTOCOL, "global", *both.names)
        others: dict[str, object] = {"protocol": PROTOCOL + 1, "sender": "10.0.0.9:9"}
        greeting = msgspec.structs.replace(right, **{wrong: others.get(wrong, "127.0.0.1:9")})
        host, port = both.names[1].split(":")
        with socket.create_connection((host, int(port)), WAIT_S) as channel:
            channel.sendall(frame(msgspec.msgpack.encode(greeting)))
            channel.sendall(frame(raft_messages.encode(TimeoutNow(1))))
            assert is_closed(channel)
        assert both.inbox.empty()


def test_malformed_bytes_close_their_own_connection_only() -> None:
    chance = random.Random(5)
    greeted = Greeting(PROTOCOL, "global", "", "")
    with pair() as both:
        hello = frame(
            msgspec.msgpack.encode(
                msgspec.structs.replace(greeted, sender=both.names[0], receiver=both.names[1])
            )
        )
        host, port = both.names[1].split(":")
        message = bytearray(frame(raft_messages.encode(Append(1, 1, 1, [LogEntry(1, b"x")], 1, 1))))
        for trial in range(200):
            garbage = chance.randbytes(chance.randrange(1, 200))
            if trial % 2:
                damaged = bytearray(message)
                damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
                garbage = hello + bytes(damaged)
            with socket.create_connection((host, int(port)), WAIT_S) as channel:
                channel.sendall(garbage)
        assert both.send_until_it_arrives(TimeoutNow(9))
        while not both.inbox.empty():
            assert both.inbox.get()[0] == both.names[0]


def test_frame_announced_beyond_the_limit_closes_the_connection() -> None:
    with pair() as both:
        host, port = both.names[1].split(":")
        with socket.create_connection((host, int(port)), WAIT_S) as channel:
            channel.sendall(b"\xff\xff\xff\xff")
            assert is_closed(channel)


@pytest.mark.parametrize(
    ("names", "host", "fits"),
    [
        ((("IP Address", "10.0.0.1"),), "10.0.0.1", True),
        ((("IP Address", "10.0.0.1"),), "10.0.0.2", False),
        ((("DNS", "server-1"),), "SERVER-1", True),
        ((("DNS", "*.example"),), "a.example", False),
        ((), "10.0.0.1", False),
    ],
)
def test_certificate_must_name_the_host(
    names: tuple[tuple[str, str], ...], host: str, fits: bool
) -> None:
    assert names_host({"subjectAltName": names}, host) is fits


@pytest.mark.parametrize(
    ("bind", "peers", "error"),
    [
        ("127.0.0.1:1", ("127.0.0.1:1",), InvalidInputError),
        ("127.0.0.1:1", ("127.0.0.1:2", "127.0.0.1:2"), InvalidInputError),
        ("127.0.0.1:0", ("127.0.0.1:2",), InvalidInputError),
        ("127.0.0.1:1", ("nowhere",), InvalidInputError),
        ("10.0.0.1:1", ("10.0.0.2:1",), RefusedError),
    ],
)
def test_member_with_an_impossible_address_is_refused(
    tmp_path: Path, bind: str, peers: tuple[str, ...], error: type[Exception]
) -> None:
    config = ReplicationConfig(tmp_path, "s", bind=bind, peers=peers)
    with pytest.raises(error, match="cannot"):
        ReplicatedState(config, SystemClock(), RandomIds())
