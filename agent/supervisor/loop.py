"""One epoll loop with timers and the SIGCHLD wake-up: all the concurrency the supervisor has."""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Callable
else:
    import _signal  # `signal` imports enum, a tenth of this process

_READ_BYTES = 65536


class Loop:
    """Calls back on readable or writable descriptors, on child exits, and when timers are due."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._stopping = False

    def add(self, fd: int, handler: Callable[[int], None], events: int = select.EPOLLIN) -> None:
        self._handlers[fd] = handler
        self._epoll.register(fd, events)

    def want(self, fd: int, events: int) -> None:
        self._epoll.modify(fd, events)

    def remove(self, fd: int) -> None:
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        self._timers.append((time.monotonic() + delay_s, callback))

    def on_child_exit(self, callback: Callable[[], None]) -> None:
        """Run `callback` soon after any child's exit (one call may stand for several)."""
        self._wake_on_signal(_signal.SIGCHLD, callback)

    def stop_on_signal(self, number: int) -> None:
        _signal.signal(number, lambda _number, _frame: self.stop())

    def stop(self) -> None:
        self._stopping = True

    def run(self) -> None:
        while not self._stopping:
            for fd, events in self._poll():
                handler = self._handlers.get(fd)
                if handler is not None:
                    handler(events)
            self._run_timers()

    def _poll(self) -> list[tuple[int, int]]:
        timeout_s = -1.0
        if self._timers:
            timeout_s = max(0.0, min(due for due, _ in self._timers) - time.monotonic())
        return self._epoll.poll(timeout_s)

    def _run_timers(self) -> None:
        now_s = time.monotonic()
        due = [timer for timer in self._timers if timer[0] <= now_s]
        if due:
            self._timers = [timer for timer in self._timers if timer[0] > now_s]
        for _, callback in due:
            callback()

    def _wake_on_signal(self, number: int, callback: Callable[[], None]) -> None:
        read_fd, write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        _signal.signal(number, lambda _number, _frame: None)
        _signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)

        def woken(_events: int) -> None:
            os.read(read_fd, _READ_BYTES)
            callback()

        self.add(read_fd, woken)
