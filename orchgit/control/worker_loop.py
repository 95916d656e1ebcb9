"""What a scheduler worker does: take an evaluation, decide, submit, again.

    dequeue -> wait for the store -> decide -> submit plan with the outcome -> (look again)

While plans are on their way to the log the next evaluation is decided, counting what they take. A
plan that is committed whole takes its evaluation's outcome into the same entry and ends it.
Everything outside comes through two ports, the leader and the views, so the loop itself runs in
tests without a process. Any failure ends in a nack: the broker delivers the evaluation again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from orchgit.clock import Clock
from orchgit.control.worker_status import (
    BACKING_OFF,
    PAUSED,
    RESTING,
    SCHEDULING,
    STARTED,
    SUBMITTING,
    WAITING,
    WAITING_FOR_RAFT,
)
from orchgit.errors import ConflictError, OrchgitError, TimedOutError, UnavailableError
from orchgit.ids import IdSource
from orchgit.model.evaluation import Evaluation
from orchgit.model.plan import Placements, Plan, PlanResult
from orchgit.scheduler.outcome import Attempts, Outcome, gave_up
from orchgit.scheduler.ports import ClusterView
from orchgit.wire.messages import DequeuedEvaluation

logger = logging.getLogger(__name__)


class LeaderPort(Protocol):
    """The leader, as a worker sees it."""

    async def dequeue(
        self, types: Sequence[str], timeout_s: float, limit: int
    ) -> list[DequeuedEvaluation]:
        """One when it comes, up to `limit` if more are ready; none when the time is over."""
        ...

    async def nack(self, eval_id: str, token: str, *, untouched: bool = False) -> None: ...

    async def close(self, eval_id: str, token: str, evaluations: list[Evaluation]) -> None:
        """Store the outcome and end the evaluation."""
        ...

    async def submit(
        self, plan: Plan, followups: list[Evaluation], closing: list[Evaluation]
    ) -> PlanResult:
        """Without a refresh index the evaluation is closed with `closing`."""
        ...


class Expected(Protocol):
    """What is on its way to the log, laid over the views."""

    @property
    def settled_index(self) -> int: ...

    def expect(self, plan_id: str, placements: list[Placements]) -> None: ...

    def settle(self, plan_id: str, placements: list[Placements], index: int) -> None: ...


class Views(Protocol):
    """Views of the local store."""

    @property
    def expected(self) -> Expected: ...

    async def reach(self, index: int, timeout_s: float) -> None:
        """Wait until the store has applied `index`. Raises TimedOutError."""
        ...

    def open(self) -> contextlib.AbstractContextManager[ClusterView]:
        """The newest view."""
        ...


Schedule = Callable[[Evaluation, ClusterView, int, int], Outcome]


@dataclass(frozen=True)
class WorkerLimits:
    """`sync_limit_s`: how long an evaluation may wait for the store before it is given back.
    `backoff_s`: how long the worker then keeps away, unless the store catches up earlier.
    `at_once`: evaluations taken from the leader together. `on_the_way`: evaluations in work, all
    but one of them waiting for the answer to their plans."""

    dequeue_timeout_s: float = 20.0
    sync_limit_s: float = 5.0
    backoff_s: float = 30.0
    leader_retry_s: float = 0.2
    at_once: int = 4
    on_the_way: int = 3


class WorkerLoop:
    """Runs until canceled."""

    def __init__(
        self,
        leader: LeaderPort,
        views: Views,
        schedule: Schedule,
        clock: Clock,
        ids: IdSource,
        types: Sequence[str],
        limits: WorkerLimits | None = None,
        on_status: Callable[[str], None] = lambda status: None,
    ) -> None:
        self._leader = leader
        self._views = views
        self._schedule = schedule
        self._clock = clock
        self._ids = ids
        self._types = list(types)
        self._limits = limits or WorkerLimits()
        self._on_status = on_status
        self._wanted = STARTED
        self._changed = asyncio.Event()
        self._taken: deque[DequeuedEvaluation] = deque()
        """Dequeued, and not begun."""
        self._phase = ""
        """What keeps it from taking evaluations, if anything does."""
        self._work: set[asyncio.Task[None]] = set()
        self._deciding = asyncio.Lock()
        self._submitted = 0
        """Plans that wait for their answer."""
        self._answered = asyncio.Event()

    def set_paused(self, paused: bool) -> None:
        """What is being worked on is finished first; `on_status` hears when the worker rests."""
        self._wanted = PAUSED if paused else STARTED
        self._changed.set()

    @property
    def workload(self) -> str:
        """What it does now, in Nomad's words; the latest step when it does several things."""
        if self._phase in (RESTING, BACKING_OFF, WAITING_FOR_RAFT):
            return self._phase
        if self._submitted:
            return SUBMITTING
        return SCHEDULING if self._work else WAITING

    async def run(self) -> None:
        self._on_status(STARTED)
        try:
            while True:
                await self._rest()
                await self._until_work_below(self._limits.on_the_way)
                if self._taken:
                    await self._begin(self._taken.popleft())
                else:
                    await self._take()
        finally:
            await self._leave()

    async def _take(self) -> None:
        try:
            self._taken.extend(await self._dequeue())
        except UnavailableError as exc:
            logger.debug("no evaluation from the leader: %s", exc)
            await self._clock.sleep(self._limits.leader_retry_s)

    async def _begin(self, taken: DequeuedEvaluation) -> None:
        if not await self._catch_up(taken):
            return
        work = asyncio.create_task(self._handle(taken.evaluation, taken.token))
        self._work.add(work)
        work.add_done_callback(self._work.discard)

    async def _until_work_below(self, count: int) -> None:
        while len(self._work) >= count:
            await asyncio.wait(self._work, return_when=asyncio.FIRST_COMPLETED)

    async def _leave(self) -> None:
        """Give back what is not done."""
        for work in self._work:
            work.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        await self._give_back_taken()

    async def _catch_up(self, taken: DequeuedEvaluation) -> bool:
        """Wait until the store is at the evaluation's wait index. If it takes too long, give it
        back and keep away; False then."""
        evaluation, token = taken.evaluation, taken.token
        try:
            with self._in_phase(WAITING_FOR_RAFT):
                await self._views.reach(taken.wait_index, self._limits.sync_limit_s)
        except TimedOutError:
            await self._back_off(evaluation, token, taken.wait_index)
            return False
        except asyncio.CancelledError:
            logger.info("shutting down while evaluation %s waits for the store", evaluation.id)
            await self._give_back(evaluation, token)
            raise
        return True

    async def _handle(self, evaluation: Evaluation, token: str) -> None:
        """Deal with one delivery: it ends in an ack or a nack."""
        try:
            await self._process(evaluation, token)
        except ConflictError as exc:
            logger.warning("evaluation %s is not this worker's any more: %s", evaluation.id, exc)
        except OrchgitError as exc:
            logger.warning("evaluation %s is given back: %s", evaluation.id, exc)
            await self._give_back(evaluation, token)
        except asyncio.CancelledError:
            await self._give_back(evaluation, token)
            raise
        except Exception:
            logger.exception("the scheduler failed on evaluation %s", evaluation.id)
            await self._give_back(evaluation, token)

    async def _rest(self) -> None:
        """While paused, finish what was taken and wait here."""
        if self._wanted == STARTED or self._taken:
            return
        await self._until_work_below(1)
        self._on_status(PAUSED)
        with self._in_phase(RESTING):
            while self._wanted == PAUSED:
                self._changed.clear()
                await self._changed.wait()
        self._on_status(STARTED)

    async def _dequeue(self) -> list[DequeuedEvaluation]:
        """The next deliveries, or none when the worker is to pause."""
        self._changed.clear()
        limits = self._limits
        wait = asyncio.create_task(self._changed.wait())
        ask = asyncio.create_task(
            self._leader.dequeue(self._types, limits.dequeue_timeout_s, limits.at_once)
        )
        try:
            await asyncio.wait((ask, wait), return_when=asyncio.FIRST_COMPLETED)
            return ask.result() if ask.done() else []
        finally:
            wait.cancel()
            ask.cancel()
            await asyncio.gather(ask, wait, return_exceptions=True)

    # -- inside --------------------------------------------------------------------------------

    async def _process(self, evaluation: Evaluation, token: str) -> None:
        attempts = Attempts(evaluation.type)
        while True:
            outcome = await self._decide(evaluation)
            if outcome.plan is None:
                break
            result = await self._submit(outcome, outcome.plan, token)
            if not result.refresh_index:
                return
            attempts.record(result)
            if not attempts.remain:
                outcome = gave_up(evaluation, outcome, attempts.limit, self._ids)
                break
            await self._views.reach(result.refresh_index, self._limits.sync_limit_s)
        await self._leader.close(evaluation.id, token, outcome.followups + _closing(outcome))

    async def _decide(self, evaluation: Evaluation) -> Outcome:
        """What is on its way may be refused yet: before something is called impossible because of
        it, its answer is waited for."""
        async with self._deciding:
            outcome = self._look(evaluation)
            if self._submitted and _lacks_room(outcome):
                await self._until_answered()
                outcome = self._look(evaluation)
            if outcome.plan is not None:
                self._views.expected.expect(evaluation.id, outcome.plan.placements)
                self._submitted += 1
            return outcome

    def _look(self, evaluation: Evaluation) -> Outcome:
        with self._views.open() as view:
            seed = zlib.crc32(f"{evaluation.id}/{view.index}".encode())
            return self._schedule(evaluation, view, self._clock.now_ns(), seed)

    async def _submit(self, outcome: Outcome, plan: Plan, token: str) -> PlanResult:
        plan.eval_token = token
        result = PlanResult()
        try:
            result = await self._leader.submit(plan, outcome.followups, _closing(outcome))
            return result
        finally:
            self._views.expected.settle(plan.eval_id, result.placements, result.alloc_index)
            self._submitted -= 1
            self._answered.set()

    async def _until_answered(self) -> None:
        """All plans on their way are answered, and the store has what became of them."""
        while self._submitted:
            self._answered.clear()
            await self._answered.wait()
        await self._views.reach(self._views.expected.settled_index, self._limits.sync_limit_s)

    async def _back_off(self, evaluation: Evaluation, token: str, wait_index: int) -> None:
        """The store is far behind: others may be ahead, so give back and keep away for long, or
        until the store has caught up."""
        logger.warning(
            "the store is behind index %d; evaluation %s is given back", wait_index, evaluation.id
        )
        await self._give_back(evaluation, token)
        await self._give_back_taken()
        with self._in_phase(BACKING_OFF), contextlib.suppress(TimedOutError):
            await self._views.reach(wait_index, self._limits.backoff_s)

    @contextlib.contextmanager
    def _in_phase(self, name: str) -> Iterator[None]:
        self._phase = name
        try:
            yield
        finally:
            self._phase = ""

    async def _give_back_taken(self) -> None:
        while self._taken:
            taken = self._taken.popleft()
            await self._give_back(taken.evaluation, taken.token, untouched=True)

    async def _give_back(
        self, evaluation: Evaluation, token: str, *, untouched: bool = False
    ) -> None:
        """Best effort: the hold times out by itself when the leader cannot be told."""
        try:
            await self._leader.nack(evaluation.id, token, untouched=untouched)
        except OrchgitError as exc:
            logger.debug("cannot give back evaluation %s: %s", evaluation.id, exc)


def _closing(outcome: Outcome) -> list[Evaluation]:
    """What is stored when the evaluation ends."""
    return [outcome.evaluation] + ([outcome.blocked] if outcome.blocked else [])


def _lacks_room(outcome: Outcome) -> bool:
    """Whether something could not be placed, or only in the place of others."""
    plan = outcome.plan
    return bool(outcome.evaluation.failed_tg_allocs or (plan is not None and plan.preemptions))
