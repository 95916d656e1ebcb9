"""Stores a commit's objects on a majority of the servers before the log names the commit.

So after the loss of any minority a server is left that has the objects, and every other server can
fetch them from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from orchgit.clock import Clock
from orchgit.errors import InvalidInputError, OrchgitError, UnavailableError
from orchgit.gitops.mirrors.peers import Peer, PeerClient, Peers

_RETRY_S = 0.25
_SAY_AFTER_S = 1.0

Say = Callable[[str], Awaitable[None]]
"""Shows lines of text to the person who waits."""

_log = structlog.get_logger(component="gitops")


def others_needed(others: Sequence[Peer]) -> int:
    """Returns how many other voters make a majority together with this server."""
    return (sum(peer.votes for peer in others) + 1) // 2


class ObjectQuorum:
    """The leader's side. Servers that are late go on fetching after a majority has answered."""

    def __init__(self, peers: Peers, client: PeerClient, clock: Clock, timeout_s: float) -> None:
        self._peers = peers
        self._client = client
        self._clock = clock
        self._timeout_s = timeout_s
        self._asking: set[asyncio.Task[None]] = set()

    async def hold(self, source: str, object_ids: Sequence[str], say: Say | None = None) -> None:
        """Stores objects that this server has; returns when a majority has them on disk.

        `say` tells of a wait of more than a second. Raises UnavailableError naming the servers that
        did not answer within the time-out.
        """
        others = [peer for peer in self._peers.others() if peer.votes]
        needed = others_needed(others)
        if not needed or not object_ids:
            return
        answers = _Answers(needed)
        for peer in others:
            asking = self._ask(peer, source, object_ids, answers)
            task = asyncio.create_task(asking, name=f"hold {source} {peer}")
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        if say is not None and not await answers.wait(min(_SAY_AFTER_S, self._timeout_s)):
            await say(f"Waiting until {needed} of {len(others)} other servers have the objects...")
        if not await answers.wait(self._timeout_s):
            raise UnavailableError(
                "cannot store the objects on a majority of the servers: "
                f"{1 + answers.holding} of {1 + len(others)} servers have the objects, and "
                f"{1 + needed} must; try again when these servers answer: {answers.missing()}"
            )

    async def _ask(
        self, peer: Peer, source: str, object_ids: Sequence[str], answers: _Answers
    ) -> None:
        """Asks one server again and again, until it has the objects or the time is over."""
        deadline_s = self._clock.monotonic_s() + self._timeout_s
        reason = "it has not answered yet" if peer.address else "its address is unknown"
        answers.add_failure(peer, reason)
        while (left_s := deadline_s - self._clock.monotonic_s()) > 0 and peer.address:
            try:
                own = self._peers.own_address
                await self._client.hold(peer.address, source, object_ids, own, left_s)
            except OrchgitError as error:
                answers.add_failure(peer, str(error))
                if isinstance(error, InvalidInputError):
                    _log.error("a server refuses objects", server=str(peer), error=str(error))
                    return
                await self._clock.sleep(_RETRY_S)
            else:
                answers.add_holder(peer)
                return

    async def close(self) -> None:
        """Ends the calls under way."""
        tasks = list(self._asking)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Answers:
    """Which servers have the objects so far, and why the others have not."""

    def __init__(self, needed: int) -> None:
        self.needed = needed
        self.holding = 0
        self._failures: dict[Peer, str] = {}
        self._enough = asyncio.Event()

    def add_holder(self, peer: Peer) -> None:
        self._failures.pop(peer, None)
        self.holding += 1
        if self.holding >= self.needed:
            self._enough.set()

    def add_failure(self, peer: Peer, why: str) -> None:
        self._failures[peer] = why

    def missing(self) -> str:
        return "; ".join(f"{peer} ({why})" for peer, why in self._failures.items())

    async def wait(self, timeout_s: float) -> bool:
        """Waits for a majority; returns whether it was reached in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._enough.wait()
        except TimeoutError:
            return False
        return True
