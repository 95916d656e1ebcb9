"""This server's raft node, from the start of the server to its stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from orchgit.raft_node.node import RaftNode
from orchgit.raft_node.proposal import stopped
from orchgit.raft_node.status import RaftNodeStatus

T = TypeVar("T")


class RunningNode:
    """Belongs to the event loop; the node itself runs on the raft thread."""

    def __init__(self) -> None:
        self._node: RaftNode | None = None

    def start(self, node: RaftNode) -> None:
        self._node = node

    def stop(self) -> None:
        """From here on there is no status, and every call is refused."""
        self._node = None

    @property
    def status(self) -> RaftNodeStatus | None:
        """None before the start and after the stop."""
        return self._node.status if self._node is not None else None

    def get(self) -> RaftNode:
        """Raises UnavailableError before the start and after the stop."""
        if self._node is None:
            raise stopped()
        return self._node

    async def ask(self, call: Callable[[RaftNode, Callable[[T], None]], None]) -> T:
        """Returns what the node answers: `call` hands it a function that may be called on the raft
        thread. Raises UnavailableError before the start and after the stop."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[T] = loop.create_future()

        def answer(value: T) -> None:
            if not answered.done():
                answered.set_result(value)

        def answer_on_loop(value: T) -> None:
            loop.call_soon_threadsafe(answer, value)

        call(self.get(), answer_on_loop)
        return await answered
