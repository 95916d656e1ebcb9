"""What one thread sleeps on: its sockets, the calls of other threads, and the time.

The poller is pysyncobj's. The raft thread sends and receives by itself, when it is awake anyway: to
hand bytes to other threads would cost a change of the interpreter's lock each time.
"""

from __future__ import annotations

import os
import select
from collections import deque
from collections.abc import Callable

from pysyncobj.poller import POLL_EVENT_TYPE, createPoller


class PollLoop:
    """`call` and `wake` are for any thread; the rest belongs to the one that waits."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self._is_wanted = False
        self._sleeps = False
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poller = createPoller("auto")
        self._poller.subscribe(self._wake_fd, self._woken, POLL_EVENT_TYPE.READ)
        self._calls_alone = select.poll()
        self._calls_alone.register(self._wake_fd, select.POLLIN)

    def call(self, what: Callable[[], None]) -> None:
        """Makes the next `run_calls`, which is soon, call it."""
        self._calls.append(what)
        self.wake()

    def wake(self) -> None:
        """Makes the next `wait`, or the one under way, return at once."""
        self._is_wanted = True
        if self._sleeps:
            self._sleeps = False
            os.eventfd_write(self._wake_fd, 1)

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    def run_calls(self) -> None:
        for _ in range(len(self._calls)):
            self._calls.popleft()()

    def watch(self, descriptor: int, ready: Callable[[], None], write: bool = False) -> None:
        """Makes `wait` call `ready` when there is something to read (`write`: or room to write), or
        an error; replaces an earlier `ready`. Call `forget` before closing the descriptor."""
        wanted = POLL_EVENT_TYPE.READ | (POLL_EVENT_TYPE.WRITE if write else 0)
        self._poller.subscribe(descriptor, lambda _, __: self._awake(ready), wanted)

    def forget(self, descriptor: int) -> None:
        self._poller.unsubscribe(descriptor)

    def wait(self, timeout_s: float) -> None:
        """Returns when a socket was ready, another thread called, or the time is over."""
        self._sleeps = True
        # A call from here on writes to the descriptor; an earlier one is seen now.
        self._poller.poll(0 if self._is_wanted else timeout_s)
        self._sleeps = False
        # Before the caller takes what came: later calls wake again.
        self._is_wanted = False

    def wait_without_io(self, timeout_s: float) -> None:
        """As `wait`, but what comes by the sockets is no reason to return before the time is over.
        It is served all the same then."""
        self._sleeps = True
        if not self._is_wanted:
            self._calls_alone.poll(timeout_s * 1000)
        self.wait(0)

    def _awake(self, ready: Callable[[], None]) -> None:
        """What `ready` calls for itself needs no wake-up any more."""
        self._sleeps = False
        ready()

    def _woken(self, descriptor: int, events: int) -> None:
        self._sleeps = False
        os.eventfd_read(self._wake_fd)

    def close(self) -> None:
        self._poller.unsubscribe(self._wake_fd)
        os.close(self._wake_fd)
