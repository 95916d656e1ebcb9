"""The broker with its waiters and timers: what the RPC side talks to.

A worker's dequeue waits here until the broker has something for it; longest waiting first. One
task lets time pass in the broker, sleeping until its next alarm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping

from orchgit.clock import SECOND_NS, Clock
from orchgit.control.eval_broker import BrokerStats, Delivery, EvalBroker, JobKey
from orchgit.control.wakeup import Wakeup
from orchgit.ids import IdSource
from orchgit.model.evaluation import Evaluation


class EvalQueue:
    """Owned by the event loop. `run` must be running for time-outs and delays to happen."""

    def __init__(self, broker: EvalBroker, clock: Clock, ids: IdSource) -> None:
        self._broker = broker
        self._clock = clock
        self._ids = ids
        self._waiters: dict[asyncio.Future[Delivery], frozenset[str]] = {}
        self._changed = Wakeup(clock)
        self._paused = False
        self.acked = Wakeup(clock)
        """Set by each ack: the reaper of canceled evaluations paces itself by it."""

    # -- for workers ---------------------------------------------------------------------------

    async def dequeue(self, types: Collection[str], timeout_s: float) -> Delivery | None:
        """The next evaluation of these types, or None when none came in time."""
        waiter: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = frozenset(types)
        self._dispatch()
        try:
            await asyncio.wait([waiter], timeout=timeout_s)
        except asyncio.CancelledError:
            self._take_back(waiter)
            raise
        finally:
            self._waiters.pop(waiter, None)
        return waiter.result() if waiter.done() else None

    def ack(self, eval_id: str, token: str) -> None:
        self._broker.ack(eval_id, token, self._clock.now_ns())
        self.acked.set()
        self._dispatch()

    def nack(self, eval_id: str, token: str) -> None:
        self._broker.nack(eval_id, token, self._clock.now_ns())
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

    def _take_back(self, waiter: asyncio.Future[Delivery]) -> None:
        """The worker went away while its delivery was on the way to it."""
        if waiter.done():
            delivery = waiter.result()
            self.nack(delivery.evaluation.id, delivery.token)

    def _dispatch(self) -> None:
        """Something changed: hand out, and look at the alarms anew."""
        self._changed.set()
        self._hand_out()

    def _hand_out(self) -> None:
        """Give what is ready to those that wait longest."""
        if self._paused:
            return
        for waiter, types in list(self._waiters.items()):
            if waiter.done():
                continue
            delivery = self._broker.dequeue(types, self._ids.new(), self._clock.now_ns())
            if delivery is not None:
                del self._waiters[waiter]
                waiter.set_result(delivery)

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
