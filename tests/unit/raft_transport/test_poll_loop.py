"""The raft thread's sleep: whoever calls is heard, whenever it was."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from orchgit.raft_transport.poll_loop import PollLoop

LONG_S = 30.0
"""A wake-up that was lost would make the test this slow, and fail."""


@pytest.fixture
def loop() -> Iterator[PollLoop]:
    loop = PollLoop()
    yield loop
    loop.close()


def test_wait_returns_at_once_after_a_call(loop: PollLoop) -> None:
    done: list[int] = []
    loop.call(lambda: done.append(1))
    loop.wait(LONG_S)
    assert loop.has_calls
    loop.run_calls()
    assert done == [1]
    assert not loop.has_calls


def test_call_made_by_a_call_runs_next_time(loop: PollLoop) -> None:
    done: list[int] = []
    loop.call(lambda: loop.call(lambda: done.append(1)))
    loop.run_calls()
    assert not done
    assert loop.has_calls
    loop.wait(LONG_S)
    loop.run_calls()
    assert done == [1]


def test_ten_thousand_calls_from_other_threads_all_run(loop: PollLoop) -> None:
    done: list[int] = []
    answered = threading.Semaphore(0)

    def ask(first: int) -> None:
        """The next only when the last was done, so that each finds the loop about to sleep."""
        for number in range(first, first + 2500):
            loop.call(lambda number=number: (done.append(number), answered.release()))  # type: ignore[misc]
            assert answered.acquire(timeout=LONG_S)

    threads = [threading.Thread(target=ask, args=(2500 * one,)) for one in range(4)]
    for thread in threads:
        thread.start()
    watchdog = threading.Timer(LONG_S - 5, loop.wake)
    watchdog.start()
    while len(done) < 10_000 and watchdog.is_alive():
        loop.wait(LONG_S)
        loop.run_calls()
    watchdog.cancel()
    for thread in threads:
        thread.join()
    assert sorted(done) == list(range(10_000))


def test_sockets_are_served_although_a_call_waits(loop: PollLoop) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        read: list[bytes] = []
        loop.watch(ours.fileno(), lambda: read.append(ours.recv(10)))
        theirs.send(b"x")
        loop.wake()
        loop.wait(LONG_S)
        assert read == [b"x"]
        loop.watch(ours.fileno(), lambda: read.append(b"room"), write=True)
        loop.wait(LONG_S)
        assert read == [b"x", b"room"]
        loop.forget(ours.fileno())
        loop.wait(0)
        assert read == [b"x", b"room"]


def test_wait_without_io_outlasts_a_ready_socket_and_serves_it_after(loop: PollLoop) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        read: list[bytes] = []
        loop.watch(ours.fileno(), lambda: read.append(ours.recv(10)))
        theirs.send(b"x")
        began_s = time.monotonic()
        loop.wait_without_io(0.02)
        assert time.monotonic() - began_s >= 0.02
        assert read == [b"x"]


def test_wait_without_io_ends_when_another_thread_calls(loop: PollLoop) -> None:
    began_s = time.monotonic()
    loop.wake()
    loop.wait_without_io(LONG_S)
    late = threading.Timer(0.05, loop.wake)
    late.start()
    loop.wait_without_io(LONG_S)
    assert time.monotonic() - began_s < LONG_S / 2
    late.join()


def test_call_made_by_a_ready_socket_does_not_wake_twice(loop: PollLoop) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        loop.watch(ours.fileno(), lambda: loop.call(lambda: ours.recv(10)))
        theirs.send(b"x")
        loop.wait(LONG_S)
        loop.run_calls()
        somebody_called = threading.Event()

        def call() -> None:
            somebody_called.set()
            loop.wake()

        late = threading.Timer(0.05, call)
        late.start()
        loop.wait(LONG_S)
        assert somebody_called.is_set(), "it woke by itself, with nothing to do"
        late.join()
