"""The evaluation broker with its waiters and timers.

A worker's dequeue waits here until the broker has an evaluation for it; the longest waiting dequeue
is first. The leader's own workers come before those of other servers, which cost requests: remote
workers get an evaluation of a type that local workers take only when no local worker has dequeued
for `STUCK_S`, or when evaluations have been ready without a break for `BEHIND_S`. One task lets
time pass in the broker: it sleeps until the broker's next alarm.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from orchgit.clock import SECOND_NS, Clock
from orchgit.control.evaluations.broker import (
    BrokerStats,
    Delivery,
    EvalBroker,
    EvalTimes,
    JobKey,
    WorkerSession,
)
from orchgit.control.wakeup import Wakeup
from orchgit.errors import NotLeaderError
from orchgit.ids import IdSource
from orchgit.model.evaluation import Evaluation

STUCK_S = 0.15
BEHIND_S = 0.5
_ALARM_SLACK_S = 0.001
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Wish:
    """What a dequeue waits for; `limit`: how many evaluations at once."""

    types: frozenset[str]
    limit: int
    session: WorkerSession


class EvalQueue:
    """Owned by the event loop. `run` must be running for time-outs and delays to happen."""

    def __init__(self, broker: EvalBroker, clock: Clock, ids: IdSource) -> None:
        self._broker = broker
        self._clock = clock
        self._ids = ids
        self._waiters: dict[asyncio.Future[list[Delivery]], _Wish] = {}
        self._sessions: dict[str, str] = {}
        """Worker -> its newest session."""
        self.local: dict[WorkerSession, frozenset[str]] = {}
        """The leader's own workers, and what they take."""
        self._own_types: frozenset[str] = frozenset()
        """What any of them takes."""
        self._behind_since_s: float | None = None
        """Since when there has always been something that the leader's own could take."""
        self._asked_at_s = 0.0
        """When one of them asked last."""
        self._changed = Wakeup(clock)
        self._wakes_at_s = math.inf
        """Until when `run` sleeps."""
        self._paused = False
        self._is_dispatching = False
        self.needless = Wakeup(clock)
        """Set while there are evaluations to cancel, as others are acknowledged: the reaper paces
        itself by it."""

    # -- for workers ---------------------------------------------------------------------------

    async def dequeue(
        self,
        types: Collection[str],
        timeout_s: float,
        limit: int = 1,
        session: WorkerSession = WorkerSession(),  # noqa: B008 - frozen
    ) -> list[Delivery]:
        """The next evaluation of these types, and up to `limit` if more are ready then that nobody
        else waits for; none when none came in time. One whose delivery has failed comes alone:
        if it ends the worker's process, it takes no others with it."""
        if self._sessions.setdefault(session.worker_id, session.session) != session.session:
            self._nack_stale_sessions(session)
        if session.local and self.local.get(session) != frozenset(types):
            self._note_local({**self.local, session: frozenset(types)})
        if session.local:
            self._asked_at_s = self._clock.monotonic_s()
        waiter: asyncio.Future[list[Delivery]] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = _Wish(frozenset(types), limit, session)
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
        if self._broker.has_cancelable:
            self.needless.set()
        self._dispatch_soon()

    def nack(self, eval_id: str, token: str, *, untouched: bool = False) -> None:
        if untouched:
            self._broker.give_back(eval_id, token)
        else:
            self._broker.nack(eval_id, token, self._clock.now_ns())
        self._dispatch_soon()

    def _nack_lost(self, eval_id: str, token: str) -> None:
        """The process that held the evaluation has ended."""
        self._broker.nack(eval_id, token, self._clock.now_ns(), worker_lost=True)
        self._dispatch_soon()

    def end_session(self, session: WorkerSession) -> None:
        """The worker's process has ended: what it held is delivered again."""
        self._note_local({one: types for one, types in self.local.items() if one != session})
        for eval_id, token in self._broker.held():
            if session.holds(token):
                self._nack_lost(eval_id, token)
        self._dispatch_soon()

    def close(self) -> None:
        """Leadership is lost: everybody who waits hears of it."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(
                    NotLeaderError(
                        "cannot hand out evaluations: this server does not lead any more"
                    )
                )
        self._waiters.clear()

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
        self._dispatch_soon()

    def discard(self, eval_id: str) -> None:
        self._broker.discard(eval_id)
        self._dispatch_soon()

    def note_index(self, key: JobKey, index: int) -> None:
        self._broker.note_index(key, index)

    def take_cancelable(self, limit: int) -> list[Evaluation]:
        return self._broker.take_cancelable(limit)

    def stats(self) -> BrokerStats:
        return self._broker.stats()

    @property
    def times(self) -> Mapping[str, EvalTimes]:
        """How long evaluations take, by type of job."""
        return self._broker.times

    def queues(self) -> dict[str, tuple[int, int]]:
        return self._broker.queues()

    def set_paused(self, paused: bool) -> None:
        """While paused nothing is handed out; what is out may still be finished."""
        self._paused = paused
        self._dispatch_soon()

    async def run(self) -> None:
        """Let time pass in the broker, until canceled."""
        while True:
            self._broker.expire(self._clock.now_ns())
            self._hand_out()
            until_s = self._until_alarm_s()
            self._wakes_at_s = self._at_s(until_s)
            await self._changed.wait(until_s)

    # -- inside --------------------------------------------------------------------------------

    def _nack_stale_sessions(self, session: WorkerSession) -> None:
        """The worker was started again: nobody works on what its earlier process was given."""
        self._sessions[session.worker_id] = session.session
        for waiter, wish in list(self._waiters.items()):
            if wish.session.worker_id == session.worker_id and not waiter.done():
                waiter.set_result([])
        for eval_id, token in self._broker.held():
            if session.supersedes(token):
                self._nack_lost(eval_id, token)

    def _take_back(self, waiter: asyncio.Future[list[Delivery]]) -> None:
        """The worker went away while its deliveries were on the way to it: it saw none of them."""
        if not waiter.done() or waiter.exception() is not None:
            return
        for delivery in waiter.result():
            self.nack(delivery.evaluation.id, delivery.token, untouched=True)

    def _dispatch_soon(self) -> None:
        """Something changed. Whatever else changes in this turn of the loop is looked at with it:
        evaluations come and end by the dozen."""
        if not self._is_dispatching:
            self._is_dispatching = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        """Hand out, and see that the next alarm is not slept through."""
        self._is_dispatching = False
        self._hand_out()
        if self._at_s(self._until_alarm_s()) < self._wakes_at_s - _ALARM_SLACK_S:
            self._changed.set()

    def _at_s(self, until_s: float | None) -> float:
        return math.inf if until_s is None else self._clock.monotonic_s() + until_s

    def _hand_out(self) -> None:
        """To the leader's own workers, then to others what is theirs to take."""
        if self._paused:
            return
        if self._waiters and self._broker.has_any_ready:
            self._feed([each for each, wish in self._waiters.items() if wish.session.local], _NONE)
            self._note_backlog()
            far = [each for each, wish in self._waiters.items() if not wish.session.local]
            self._feed(far, _NONE if self.is_behind() else self._own_types)
        self._note_backlog()

    def _feed(
        self, waiters: list[asyncio.Future[list[Delivery]]], withheld: frozenset[str]
    ) -> None:
        """Give what is ready, but for the types that are `withheld`, to those that wait longest:
        one to each, then more to who wants."""
        hungry = [waiter for waiter in waiters if not waiter.done()]
        given: dict[asyncio.Future[list[Delivery]], list[Delivery]] = {}
        while hungry:
            for waiter in list(hungry):
                got = given.setdefault(waiter, [])
                delivery = self._next_for(self._waiters[waiter], got, withheld)
                if delivery is None:
                    hungry.remove(waiter)
                else:
                    got.append(delivery)
        for waiter, deliveries in given.items():
            if deliveries:
                del self._waiters[waiter]
                waiter.set_result(deliveries)

    def _next_for(
        self, wish: _Wish, got: list[Delivery], withheld: frozenset[str]
    ) -> Delivery | None:
        types = wish.types - withheld if withheld else wish.types
        if len(got) >= wish.limit or (got and got[0].again) or not self._broker.has_ready(types):
            return None
        token = wish.session.new_token(self._ids.new())
        return self._broker.dequeue(types, token, self._clock.now_ns(), fresh=bool(got))

    def _note_local(self, local: dict[WorkerSession, frozenset[str]]) -> None:
        self.local = local
        self._own_types = frozenset[str]().union(*local.values())

    def _note_backlog(self) -> None:
        if not self._broker.has_any_ready or not self._broker.has_ready(self._own_types):
            self._behind_since_s = None
        elif self._behind_since_s is None:
            self._behind_since_s = self._clock.monotonic_s()

    def is_behind(self) -> bool:
        """Whether the leader's own workers do not keep up."""
        return self._until_behind_s() == 0

    def _until_behind_s(self) -> float | None:
        """None where they keep up."""
        if self._behind_since_s is None:
            return None
        stuck_at_s = max(self._behind_since_s, self._asked_at_s) + STUCK_S
        behind_at_s = min(stuck_at_s, self._behind_since_s + BEHIND_S)
        return max(0.0, behind_at_s - self._clock.monotonic_s())

    def _until_alarm_s(self) -> float | None:
        """Until time-outs and delays end, or other servers' workers are asked to help."""
        alarms_s = []
        alarm_ns = self._broker.next_alarm_ns()
        if alarm_ns is not None:
            alarms_s.append((alarm_ns - self._clock.now_ns()) / SECOND_NS)
        behind_s = self._until_behind_s()
        if behind_s and any(not wish.session.local for wish in self._waiters.values()):
            alarms_s.append(behind_s)
        return min(alarms_s, default=None)
