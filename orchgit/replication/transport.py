"""How messages travel between members; what arrives is handed over on any thread."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from orchgit.replication.raft_messages import Message

Receive = Callable[[str, Message], None]
"""(sender, message): from any thread."""


class Transport(Protocol):
    """May lose, delay, repeat and reorder; must not invent, nor mistake the sender."""

    def start(self, receive: Receive) -> None:
        """Begin to listen."""

    def set_peers(self, addresses: Collection[str]) -> None:
        """Who the other members are from now on; from the raft thread, and returns at once."""

    def send(self, receiver: str, message: Message) -> bool:
        """Returns at once; False if it will certainly not arrive."""

    def close(self) -> None:
        """Nothing is received after this returns."""


class LoneTransport:
    """Of a server that can have no others: it has no address that they could reach."""

    def start(self, receive: Receive) -> None:
        """Nobody will call."""

    def set_peers(self, addresses: Collection[str]) -> None:
        assert not addresses, f"a lone member has no others, not even {addresses}"

    def send(self, receiver: str, message: Message) -> bool:
        raise AssertionError(f"a lone member sends nothing, not even to {receiver}")

    def close(self) -> None:
        """Nothing is open."""
