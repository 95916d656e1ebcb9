"""Messages that wait for the raft thread, within limits for each sender."""

from __future__ import annotations

import threading
from collections import deque

from orchgit.raft.messages import Message, size_of

_MAX_MESSAGES = 4096
_MAX_BYTES = 64 << 20


class Inbox:
    """A flood from one sender costs bounded memory, and takes no room from the other senders."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[str, Message]] = deque()
        self._load: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def put(self, sender: str, message: Message) -> bool:
        """Safe to call from any thread. Returns False if the message is dropped; the only message
        of a sender is taken whatever its size."""
        size = size_of(message)
        with self._lock:
            count, held = self._load.get(sender, (0, 0))
            if count >= _MAX_MESSAGES or (held and held + size > _MAX_BYTES):
                return False
            self._load[sender] = count + 1, held + size
            self._waiting.append((sender, message))
        return True

    def take(self) -> deque[tuple[str, Message]]:
        """Returns all messages that wait, in the order in which they came."""
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
            self._load.clear()
        return waiting

    def __bool__(self) -> bool:
        return bool(self._waiting)
