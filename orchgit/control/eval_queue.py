"""The broker with its waiters and timers: what the RPC side talks to.

A worker's dequeue waits here until the broker has something for it; longest waiting first. One
task lets time pass in the broker, sleeping until its next alarm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from orchgit.clock import SECOND_NS, Clock
from orchgit.control.eval_broker import BrokerStats, Delivery, EvalBroker, Holder, JobKey
from orchgit.control.wakeup import Wakeup
from orchgit.ids import IdSource
from orchgit.model.evaluation import Evaluation


@dataclass(frozen=True)
class _Wish:
    """What somebody waits for; `limit`: how many at once."""

    types: frozenset[str]
    limit: int
    holder: Holder


class EvalQueue:
    """Owned by the event loop. `run` must be running for time-outs and delays to happen."""

    def __init__(self, broker: EvalBroker, clock: Clock, ids: IdSource) -> None:
        self._broker = broker
        self._clock = clock
        self._ids = ids
        self._waiters: dict[asyncio.Future[list[Delivery]], _Wish] = {}
        self._sessions: dict[str, str] = {}
        """Worker -> its newest life."""
        self._changed = Wakeup(clock)
        self._paused = False
        self.acked = Wakeup(clock)
        """Set by each ack: the reaper of canceled evaluations paces itself by it."""

    # -- for workers ---------------------------------------------------------------------------

    async def dequeue(
        self,
        types: Collection[str],
        timeout_s: float,
        limit: int = 1,
        holder: Holder = Holder(),  # noqa: B008 - frozen
    ) -> list[Delivery]:
        """The next evaluation of these types, and up to `limit` if more are ready then that nobody
        else waits for; none when none came in time."""
        if self._sessions.setdefault(holder.worker_id, holder.session) != holder.session:
            self._bury(holder)
        waiter: asyncio.Future[list[Delivery]] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = _Wish(frozenset(types), limit, holder)
        self._dispatch()
        try:
            await asyncio.wait([waiter], timeout=timeout_s)
        except asyncio.CancelledError:
            self._take_back(waiter)
            raise
        finally:
            self._waiters.pop(waiter, None)
        return waiter.result() if waiter.done() else []

    def ack(self, eval_id: str, token: str) -> None:
        self._broker.ack(eval_id, token, self._clock.now_ns())
        self.acked.set()
        self._dispatch()

    def nack(self, eval_id: str, token: str, *, untouched: bool = False) -> None:
        now_ns = self._clock.now_ns()
        if untouched:
            self._broker.give_back(eval_id, token)
        else:
            self._broker.nack(eval_id, token, now_ns)
        self._dispatch()

    def holds(self, eval_id: str, token: str) -> bool:
        """Whether the evaluation is out under this token."""
        return bool(token) and self._broker.outstanding(eval_id) == token

    def extend(self, eval_id: str, token: str) -> None:
        self._broker.extend(eval_id, token, self._clock.now_ns())

    # -- for the leader's loops ----------------------------------------------------------------

    def enqueue(self, evaluations: Iterable[Evaluation]) -> None:
        now_ns = self._clock.now_ns()
        for evaluation in evaluations:
            self._broker.enqueue(evaluation, now_ns)
        self._dispatch()

    def discard(self, eval_id: str) -> None:
        self._broker.discard(eval_id)
        self._dispatch()

    def note_index(self, key: JobKey, index: int) -> None:
        self._broker.note_index(key, index)

    def take_cancelable(self, limit: int) -> list[Evaluation]:
        return self._broker.take_cancelable(limit)

    def stats(self) -> BrokerStats:
        return self._broker.stats()

    def set_paused(self, paused: bool) -> None:
        """While paused nothing is handed out; what is out may still be finished."""
        self._paused = paused
        self._dispatch()

    async def run(self) -> None:
        """Let time pass in the broker, until canceled."""
        while True:
            self._broker.expire(self._clock.now_ns())
            self._hand_out()
            await self._changed.wait(self._until_alarm_s())

    # -- inside --------------------------------------------------------------------------------

    def _bury(self, holder: Holder) -> None:
        """The worker was started anew: nobody works on what its earlier process was given."""
        self._sessions[holder.worker_id] = holder.session
        for waiter, wish in list(self._waiters.items()):
            if wish.holder.worker_id == holder.worker_id and not waiter.done():
                waiter.set_result([])
        for eval_id, token in self._broker.held():
            if holder.outlived(token):
                self.nack(eval_id, token)

    def _take_back(self, waiter: asyncio.Future[list[Delivery]]) -> None:
        """The worker went away while its deliveries were on the way to it."""
        for delivery in waiter.result() if waiter.done() else ():
            self.nack(delivery.evaluation.id, delivery.token)

    def _dispatch(self) -> None:
        """Something changed: hand out, and look at the alarms anew."""
        self._changed.set()
        self._hand_out()

    def _hand_out(self) -> None:
        """Give what is ready to those that wait longest: one to each, then more to who wants."""
        if self._paused:
            return
        given: dict[asyncio.Future[list[Delivery]], list[Delivery]] = {}
        hungry = [waiter for waiter in self._waiters if not waiter.done()]
        while hungry:
            for waiter in list(hungry):
                wish = self._waiters[waiter]
                got = given.setdefault(waiter, [])
                delivery = None
                if len(got) < wish.limit:
                    token = wish.holder.token(self._ids.new())
                    delivery = self._broker.dequeue(wish.types, token, self._clock.now_ns())
                if delivery is None:
                    hungry.remove(waiter)
                else:
                    got.append(delivery)
        for waiter, deliveries in given.items():
            if deliveries:
                del self._waiters[waiter]
                waiter.set_result(deliveries)

    def _until_alarm_s(self) -> float | None:
        alarm_ns = self._broker.next_alarm_ns()
        return None if alarm_ns is None else (alarm_ns - self._clock.now_ns()) / SECOND_NS


def stats_by_name(stats: BrokerStats) -> Mapping[str, int]:
    return {
        "ready": stats.ready,
        "unacked": stats.unacked,
        "pending": stats.pending,
        "waiting": stats.waiting,
        "cancelable": stats.cancelable,
        "failed": stats.failed,
    }
