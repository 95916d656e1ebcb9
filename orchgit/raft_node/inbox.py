"""Messages that wait for the raft thread, so many from each sender and no more."""

from __future__ import annotations

import threading
from collections import deque

from orchgit.raft.messages import Message, size_of

_MAX_MESSAGES = 4096
_MAX_BYTES = 64 << 20


class Inbox:
    """A flood by one sender costs bounded memory, and takes nothing from the others."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[str, Message]] = deque()
        self._load: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def put(self, sender: str, message: Message) -> bool:
        """From any thread. False: it is dropped. One message is taken, whatever its size."""
        size = size_of(message)
        with self._lock:
            count, held = self._load.get(sender, (0, 0))
            if count >= _MAX_MESSAGES or (held and held + size > _MAX_BYTES):
                return False
            self._load[sender] = count + 1, held + size
            self._waiting.append((sender, message))
        return True

    def take(self) -> deque[tuple[str, Message]]:
        """All that wait, in the order in which they came."""
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
            self._load.clear()
        return waiting

    def __bool__(self) -> bool:
        return bool(self._waiting)
