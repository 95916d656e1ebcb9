"""How messages travel between members; what arrives is handed over on any thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from orchgit.replication.raft_messages import Message

Receive = Callable[[str, Message], None]
"""(sender, message): from any thread."""


class Transport(Protocol):
    """May lose, delay, repeat and reorder; must not invent, nor mistake the sender."""

    def start(self, receive: Receive) -> None:
        """Begin to listen and to connect."""

    def send(self, receiver: str, message: Message) -> None:
        """Returns at once, whether or not it can be delivered."""

    def close(self) -> None:
        """Nothing is received after this returns."""


class LoneTransport:
    """Of a cluster of one: there is nobody to send to."""

    def start(self, receive: Receive) -> None:
        """Nobody will call."""

    def send(self, receiver: str, message: Message) -> None:
        raise AssertionError(f"a lone member sends nothing, not even to {receiver}")

    def close(self) -> None:
        """Nothing is open."""
