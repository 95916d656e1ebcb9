"""How raft messages leave: held back until what they say is durable."""

from __future__ import annotations

from collections.abc import Sequence

from pysyncobj.node import Node as Member
from pysyncobj.transport import Transport

__all__ = ["HeldTransport", "LoneTransport", "Member"]


class HeldTransport(Transport):  # type: ignore[misc]
    """Keeps what is sent during a turn; `release` lets it go, after the journal was synced.

    So no vote, reply or appended entry is ever heard of before it is on disk, whichever part of
    the library sends it. A subclass says how messages travel.
    """

    def __init__(self, peers: Sequence[Member] = ()) -> None:
        super().__init__(None, None, peers)
        self.peers = tuple(peers)
        self._held: list[tuple[Member, dict[str, object]]] = []

    @property
    def ready(self) -> bool:
        return True

    def waitReady(self) -> None:
        """Always ready."""

    def send(self, node: Member, message: dict[str, object]) -> bool:
        self._held.append((node, message))
        return True

    def release(self) -> None:
        held, self._held = self._held, []
        for node, message in held:
            self.deliver(node, message)

    def deliver(self, node: Member, message: dict[str, object]) -> None:
        raise NotImplementedError

    def destroy(self) -> None:
        self._held.clear()


class LoneTransport(HeldTransport):
    """Of a cluster of one: there is nobody to send to."""

    def deliver(self, node: Member, message: dict[str, object]) -> None:
        raise AssertionError(f"a lone member sends nothing, not even to {node.id}")
