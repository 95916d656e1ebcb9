"""How messages travel between members."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from orchgit.raft.messages import Message
from orchgit.raft_transport.poll_loop import PollLoop

Receive = Callable[[str, Message], None]
"""(sender, message): from any thread."""


class Transport(Protocol):
    """May lose, delay, repeat and reorder; must not invent, nor mistake the sender."""

    def start(self, receive: Receive, loop: PollLoop) -> None:
        """Begin to listen, with the sockets in the loop. All others are for the loop's thread, and
        return at once."""

    @property
    def has_connections(self) -> bool:
        """Whether `tick` is to be called, every second at the least."""
        ...

    def set_peers(self, addresses: Collection[str]) -> None:
        """Who the other members are from now on."""

    def send(self, receiver: str, message: Message) -> bool:
        """With the next `flush`; False if it will certainly not arrive."""

    def flush(self) -> None: ...

    def tick(self) -> None:
        """See to the connections: some are silent for too long, some are to be made again."""

    def close(self) -> None:
        """When the loop's thread has ended."""


class LoneTransport:
    """Of a server that can have no others: it has no address that they could reach."""

    has_connections = False

    def start(self, receive: Receive, loop: PollLoop) -> None:
        """Nobody will call."""

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
