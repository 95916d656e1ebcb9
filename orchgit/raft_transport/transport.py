"""How messages travel between members."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from orchgit.raft.messages import Message
from orchgit.raft_transport.poll_loop import PollLoop

Receive = Callable[[str, Message], None]
"""(sender, message): from any thread."""


class Transport(Protocol):
    """May lose, delay, repeat and reorder messages; must not invent any, nor mistake the sender."""

    def start(self, receive: Receive, loop: PollLoop) -> None:
        """Begins to listen, with the sockets in the loop. All other methods are for the loop's
        thread, and return at once."""

    @property
    def has_connections(self) -> bool:
        """`tick` has to be called, at least every second."""
        ...

    def set_peers(self, addresses: Collection[str]) -> None:
        """Sets who the other members are from now on."""

    def send(self, receiver: str, message: Message) -> bool:
        """Sends with the next `flush`; returns False if the message will certainly not arrive."""

    def flush(self) -> None: ...

    def tick(self) -> None:
        """Ends connections that are silent for too long, and makes lost ones again."""

    def close(self) -> None:
        """When the loop's thread has ended."""


class LoneTransport:
    """The transport of a server that can have no other members: they could not reach it."""

    has_connections = False

    def start(self, receive: Receive, loop: PollLoop) -> None:
        """No other server connects."""

    def set_peers(self, addresses: Collection[str]) -> None:
        assert not addresses, f"a lone member has no others, not even {addresses}"

    def send(self, receiver: str, message: Message) -> bool:
        raise AssertionError(f"a lone member sends nothing, not even to {receiver}")

    def flush(self) -> None:
        """Nothing waits."""

    def tick(self) -> None:
        """Nothing is open."""

    def close(self) -> None:
        """Nothing is open."""
