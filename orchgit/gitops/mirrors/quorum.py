"""A commit's objects are on a majority of the servers before the log names the commit.

With that, whatever minority is lost, a server is left that has them, and every server that is left
can fetch them from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from orchgit.clock import Clock
from orchgit.errors import InvalidInputError, OrchgitError, UnavailableError
from orchgit.gitops.mirrors.peers import Peer, PeerClient, Peers

_log = structlog.get_logger(component="gitops")

_RETRY_S = 0.25
_SAY_AFTER_S = 1.0

Say = Callable[[str], Awaitable[None]]


def others_needed(others: Sequence[Peer]) -> int:
    """How many other members with a vote make a majority together with this server."""
    return (sum(peer.votes for peer in others) + 1) // 2


class ObjectQuorum:
    """The leader's side. Servers that are late go on fetching after a majority has answered."""

    def __init__(self, peers: Peers, calls: PeerClient, clock: Clock, timeout_s: float) -> None:
        self._peers = peers
        self._calls = calls
        self._clock = clock
        self._timeout_s = timeout_s
        self._asking: set[asyncio.Task[None]] = set()

    async def hold(self, source: str, object_ids: Sequence[str], say: Say | None = None) -> None:
        """Returns when a majority has the objects on disk; this server has them already. Raises
        UnavailableError naming the servers that did not answer in time. `say` hears of the wait."""
        others = [peer for peer in self._peers.others() if peer.votes]
        needed = others_needed(others)
        if not needed or not object_ids:
            return
        round_ = _Round(len(others), needed)
        for peer in others:
            asking = self._until_held(peer, source, object_ids, round_)
            task = asyncio.create_task(asking, name=f"hold {source} {peer}")
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        if say is not None and not await round_.wait(min(_SAY_AFTER_S, self._timeout_s)):
            await say(f"Waiting for {needed} of {len(others)} other servers to have the objects")
        if not await round_.wait(self._timeout_s):
            raise UnavailableError(
                f"cannot go on: {1 + round_.holding} of {1 + len(others)} servers have the "
                f"objects, and {1 + needed} must; try again when these are back: "
                f"{round_.missing()}"
            )

    async def _until_held(
        self, peer: Peer, source: str, object_ids: Sequence[str], round_: _Round
    ) -> None:
        deadline_s = self._clock.monotonic_s() + self._timeout_s
        round_.failed(peer, "it has not answered yet" if peer.address else "its address is unknown")
        while (left_s := deadline_s - self._clock.monotonic_s()) > 0 and peer.address:
            try:
                own = self._peers.own_address
                await self._calls.hold(peer.address, source, object_ids, own, left_s)
            except OrchgitError as error:
                round_.failed(peer, str(error))
                if isinstance(error, InvalidInputError):
                    _log.error("a server refuses objects", server=str(peer), error=str(error))
                    return
                await self._clock.sleep(_RETRY_S)
            else:
                round_.held(peer)
                return

    async def close(self) -> None:
        tasks = list(self._asking)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Round:
    """Who has answered so far."""

    def __init__(self, count: int, needed: int) -> None:
        self.count = count
        self.needed = needed
        self.holding = 0
        self._failures: dict[Peer, str] = {}
        self._enough = asyncio.Event()

    def held(self, peer: Peer) -> None:
        self._failures.pop(peer, None)
        self.holding += 1
        if self.holding >= self.needed:
            self._enough.set()

    def failed(self, peer: Peer, why: str) -> None:
        self._failures[peer] = why

    def missing(self) -> str:
        return "; ".join(f"{peer} ({why})" for peer, why in self._failures.items())

    async def wait(self, timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                await self._enough.wait()
        except TimeoutError:
            return False
        return True
