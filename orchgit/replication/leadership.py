"""Whether this server leads, for the loops that run on the leader only."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from orchgit.errors import NotLeaderError


class LeadershipFeed:
    """`async for leads in feed`: True when this server became leader, False when it lost that.

    The first item says how it is now. Changes that cancel out while nobody reads are left out.
    """

    def __init__(self, leads: bool) -> None:
        self._leads = leads
        self._told: bool | None = None
        self._changed = asyncio.Event()
        self._changed.set()
        self._closed = False
        self._lost = False

    def tell(self, leads: bool) -> None:
        self._leads = leads
        self._changed.set()

    def renew(self) -> None:
        """Yields a loss before the current role is yielded again."""
        if self._told:
            self._lost = True
            self._changed.set()

    def close(self) -> None:
        self._closed = True
        self._changed.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bool:
        while not self._closed:
            if self._lost:
                self._lost = self._told = False
                return False
            if self._told != self._leads:
                self._told = self._leads
                return self._leads
            self._changed.clear()
            await self._changed.wait()
        raise StopAsyncIteration


class LeaderSignal:
    """Wakes the tasks that wait for another leader; on the event loop."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def tell(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for woken in waiting:
            if not woken.done():
                woken.set_result(None)

    async def wait(self, timeout_s: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(woken)
        try:
            await asyncio.wait((woken,), timeout=timeout_s)
        finally:
            self._waiting.discard(woken)


class WhileLeading:
    """`async with leadership.while_leading():` ends what runs inside with NotLeaderError when this
    server stops leading, as `asyncio.timeout` ends it at a time. It costs no task of its own."""

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self._lost = False

    async def __aenter__(self) -> Self:
        if not self._leadership.is_leader:
            raise _no_longer_leads()
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        self._leadership.ends_on_loss(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.go_on()
        is_own = self._lost and self._task.uncancel() <= self._cancelling
        if is_own and kind is asyncio.CancelledError:
            raise _no_longer_leads() from error

    def go_on(self) -> None:
        """From now on a loss of leadership does not end what runs inside."""
        self._leadership.outlives_loss(self)

    def end(self) -> None:
        self._lost = True
        self._task.cancel()


def _no_longer_leads() -> NotLeaderError:
    return NotLeaderError("cannot answer: this server no longer leads")


class Leadership:
    """Belongs to the event loop's thread. A server leads once it has applied the first entry of its
    own term: from then on its state holds all that was ever acknowledged."""

    def __init__(self) -> None:
        self._leads = False
        self._feeds: list[LeadershipFeed] = []
        self._gained = asyncio.Event()
        self._ended_by_loss: set[WhileLeading] = set()

    @property
    def is_leader(self) -> bool:
        return self._leads

    def subscribe(self) -> LeadershipFeed:
        feed = LeadershipFeed(self._leads)
        self._feeds.append(feed)
        return feed

    async def gained(self) -> None:
        """Returns as soon as this server leads."""
        await self._gained.wait()

    def while_leading(self) -> WhileLeading:
        return WhileLeading(self)

    def ends_on_loss(self, scope: WhileLeading) -> None:
        self._ended_by_loss.add(scope)

    def outlives_loss(self, scope: WhileLeading) -> None:
        self._ended_by_loss.discard(scope)

    def set(self, leads: bool) -> None:
        if leads == self._leads:
            return
        self._leads = leads
        (self._gained.set if leads else self._gained.clear)()
        if not leads:
            ended, self._ended_by_loss = self._ended_by_loss, set()
            for scope in ended:
                scope.end()
        for feed in self._feeds:
            feed.tell(leads)

    def renew(self) -> None:
        """What the leader's loops keep besides the state is void: the loops end and start again."""
        for feed in self._feeds:
            feed.renew()

    def close(self) -> None:
        self.set(False)
        for feed in self._feeds:
            feed.close()
        self._feeds.clear()
