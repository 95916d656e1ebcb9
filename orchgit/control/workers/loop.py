"""The loop of a scheduler worker: dequeue evaluations, decide them, submit plans, again.

    dequeue -> wait for the store -> decide -> submit plan with the outcome -> (decide again)

Evaluations that are ready are dequeued together, decided on one snapshot, and their outcomes leave
in one frame; each of them has its own reply. While plans are in flight the worker decides the next
evaluations, counting what those plans place. A plan that is committed whole takes the outcome of
its evaluation into the same log entry and ends the evaluation. Any failure ends in a nack: the
broker delivers the evaluation again.

The leader and the store come in through two ports, so the loop runs in tests without a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import msgspec
import structlog

from orchgit.cancellation import is_canceled
from orchgit.clock import Clock
from orchgit.control.leader_client.protocol import LeaderClient
from orchgit.control.workers.status import (
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
from orchgit.scheduler.outcome import Attempts, SchedulingOutcome, gave_up
from orchgit.scheduler.ports import ClusterView
from orchgit.wire.messages import (
    DequeuedEvaluation,
    DequeueReply,
    DequeueRequest,
    EvalsRequest,
    EvalTokenRequest,
    SubmitPlanRequest,
)

_log = structlog.get_logger(component="scheduler")


class InFlightPlans(Protocol):
    """Plans that were submitted and that no view has yet; counted in every view."""

    @property
    def resolved_index(self) -> int: ...

    def submit(self, plan_id: str, placements: list[Placements]) -> None: ...

    def resolve(self, plan_id: str, placements: list[Placements], index: int) -> None: ...


class Views(Protocol):
    """Views of the local store."""

    @property
    def in_flight(self) -> InFlightPlans: ...

    async def reach(self, index: int, timeout_s: float) -> None:
        """Wait until the store has applied `index`. Raises TimedOutError."""
        ...

    def open(self) -> contextlib.AbstractContextManager[ClusterView]:
        """The newest view."""
        ...


Schedule = Callable[[Evaluation, ClusterView, int, int], SchedulingOutcome]


@dataclass(frozen=True)
class WorkerLimits:
    """How much a worker takes on, and how long it waits.

    Several evaluations are dequeued together: as many as the worker decides in `ahead_s`, because
    no other worker can decide what this one holds. It decides for `slice_s`, then sends what it
    has decided; it goes on while fewer than `max_in_flight` evaluations and fewer than
    `max_placements_in_flight` placements wait for their replies.
    """

    dequeue_timeout_s: float = 20.0
    sync_limit_s: float = 5.0
    """How long an evaluation waits for the store before the worker nacks it."""
    backoff_s: float = 30.0
    """How long the worker then dequeues nothing, unless the store catches up earlier."""
    leader_retry_s: float = 0.2
    min_dequeued: int = 4
    max_dequeued: int = 32
    ahead_s: float = 0.05
    slice_s: float = 0.01
    max_in_flight: int = 32
    max_placements_in_flight: int = 2001


@dataclass
class _Decided:
    """One evaluation that was looked at. `outcome` None: what is on its way is in its way, so it is
    looked at again when that is answered. `error`: looking at it failed."""

    taken: DequeuedEvaluation
    outcome: SchedulingOutcome | None = None
    error: Exception | None = None


class WorkerLoop:
    """Runs until canceled. `request`: the types of evaluations to dequeue, and who dequeues."""

    def __init__(
        self,
        leader: LeaderClient,
        views: Views,
        schedule: Schedule,
        clock: Clock,
        ids: IdSource,
        request: DequeueRequest,
        limits: WorkerLimits | None = None,
        on_status: Callable[[str], None] = lambda status: None,
    ) -> None:
        self._leader = leader
        self._views = views
        self._schedule = schedule
        self._clock = clock
        self._ids = ids
        self._request = request
        self._limits = limits or WorkerLimits()
        self._on_status = on_status
        self._wanted = STARTED
        self._changed = asyncio.Event()
        self._question: asyncio.Task[DequeueReply] | None = None
        """What the leader was asked last."""
        self._taken: deque[DequeuedEvaluation] = deque()
        """Dequeued, and not begun."""
        self._phase = ""
        """What keeps it from taking evaluations, if anything does."""
        self._work: set[asyncio.Task[None]] = set()
        self._deciding = asyncio.Lock()
        self._submitted = 0
        """Plans that wait for their answer."""
        self._placements_sent = 0
        """What they place."""
        self._answered = asyncio.Event()
        self._pace_s = 0.0
        """What an evaluation took lately."""

    def set_paused(self, paused: bool) -> None:
        """What is being worked on is finished first; `on_status` hears when the worker rests."""
        self._wanted = PAUSED if paused else STARTED
        self._changed.set()
        if paused and self._question is not None:
            self._question.cancel()

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
                await self._until_little_in_flight()
                if self._taken:
                    await self._begin()
                else:
                    await self._take()
        finally:
            await self._leave()

    async def _take(self) -> None:
        try:
            self._taken.extend(await self._dequeue())
        except UnavailableError as exc:
            _log.debug("no evaluation from the leader", error=str(exc))
            await self._clock.sleep(self._limits.leader_retry_s)

    async def _begin(self) -> None:
        """Decide on the first of those that were taken, and on as many more as a slice lasts."""
        first = self._taken.popleft()
        if not await self._catch_up(first):
            return
        try:
            async with self._deciding:
                decided = self._look_at_several(first)
        except asyncio.CancelledError:
            await self._give_back(first.evaluation, first.token)
            raise
        for each in decided:
            work = asyncio.create_task(self._handle(each))
            self._work.add(work)
            work.add_done_callback(self._work.discard)

    async def _until_little_in_flight(self) -> None:
        while not self._little_in_flight():
            await asyncio.wait(self._work, return_when=asyncio.FIRST_COMPLETED)

    def _little_in_flight(self, more: int = 0) -> bool:
        limits = self._limits
        return (
            len(self._work) + more < limits.max_in_flight
            and self._placements_sent < limits.max_placements_in_flight
        )

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
            _log.info("stopping while an evaluation waits for the state", eval=evaluation.id)
            await self._give_back(evaluation, token)
            raise
        return True

    async def _handle(self, decided: _Decided) -> None:
        """Deal with one delivery: it ends in an ack or a nack."""
        evaluation, token = decided.taken.evaluation, decided.taken.token
        try:
            if decided.error is not None:
                raise decided.error
            outcome = decided.outcome or await self._decide(evaluation, after_answers=True)
            await self._process(evaluation, token, outcome)
        except ConflictError as exc:
            _log.warning("an evaluation went to another worker", eval=evaluation.id, error=str(exc))
        except OrchgitError as exc:
            _log.warning("evaluation returned", eval=evaluation.id, error=str(exc))
            await self._give_back(evaluation, token)
        except asyncio.CancelledError:
            await self._give_back(evaluation, token)
            raise
        except Exception:  # noqa: BLE001 - the evaluation is returned, and another worker may do better
            _log.exception("the scheduler failed", eval=evaluation.id)
            await self._give_back(evaluation, token)

    async def _rest(self) -> None:
        """While paused, finish what was taken and wait here."""
        if self._wanted == STARTED or self._taken:
            return
        while self._work:
            await asyncio.wait(self._work)
        self._on_status(PAUSED)
        with self._in_phase(RESTING):
            while self._wanted == PAUSED:
                self._changed.clear()
                await self._changed.wait()
        self._on_status(STARTED)

    async def _dequeue(self) -> list[DequeuedEvaluation]:
        """The next deliveries, or none when the worker is to pause."""
        if self._wanted == PAUSED:
            return []
        request = msgspec.structs.replace(
            self._request, timeout_s=self._limits.dequeue_timeout_s, limit=self._wanted_at_once()
        )
        self._question = asyncio.create_task(self._leader.dequeue(request))
        try:
            return (await self._question).deliveries
        except asyncio.CancelledError:
            if is_canceled():
                raise
            return []

    # -- inside --------------------------------------------------------------------------------

    def _wanted_at_once(self) -> int:
        limits = self._limits
        if self._pace_s <= 0:
            return limits.max_dequeued
        return min(
            max(int(limits.ahead_s / self._pace_s), limits.min_dequeued), limits.max_dequeued
        )

    async def _process(
        self, evaluation: Evaluation, token: str, outcome: SchedulingOutcome
    ) -> None:
        attempts = Attempts(evaluation.type)
        while outcome.plan is not None:
            result = await self._submit(outcome, outcome.plan, token)
            if not result.refresh_index:
                return
            attempts.record(result)
            if not attempts.remain:
                outcome = gave_up(evaluation, outcome, attempts.limit, self._ids)
                break
            await self._views.reach(result.refresh_index, self._limits.sync_limit_s)
            outcome = await self._decide(evaluation)
        await self._leader.store_evaluations(
            EvalsRequest(
                evaluations=outcome.followups + _closing(outcome),
                token=token,
                eval_id=evaluation.id,
                ack=True,
            )
        )

    async def _decide(
        self, evaluation: Evaluation, *, after_answers: bool = False
    ) -> SchedulingOutcome:
        """What is on its way may be refused yet: before something is called impossible because of
        it, its answer is waited for."""
        async with self._deciding:
            outcome = None if after_answers else self._look_on_newest(evaluation)
            if outcome is None or (self._submitted and _lacks_room(outcome)):
                await self._until_answered()
                outcome = self._look_on_newest(evaluation)
            self._expect(evaluation, outcome)
            return outcome

    def _look_on_newest(self, evaluation: Evaluation) -> SchedulingOutcome:
        with self._views.open() as view:
            return self._look(evaluation, view)

    def _look_at_several(self, first: DequeuedEvaluation) -> list[_Decided]:
        """On one view. What one of them takes is taken for those after it."""
        began_s = self._clock.monotonic_s()
        decided: list[_Decided] = []
        try:
            with self._views.open() as view:
                decided.append(self._look_at(first, view))
                until_s = began_s + self._limits.slice_s
                while self._may_look_at_next(view, until_s, len(decided)):
                    decided.append(self._look_at(self._taken.popleft(), view))
        except Exception as exc:  # noqa: BLE001 - of the view; the evaluation is given back
            decided = decided or [_Decided(first, error=exc)]
        took_s = self._clock.monotonic_s() - began_s
        self._pace_s = (self._pace_s + took_s / len(decided)) / 2
        return decided

    def _may_look_at_next(self, view: ClusterView, until_s: float, decided: int) -> bool:
        if not self._taken or self._taken[0].wait_index > view.index:
            return False
        return self._little_in_flight(decided) and self._clock.monotonic_s() < until_s

    def _look_at(self, taken: DequeuedEvaluation, view: ClusterView) -> _Decided:
        try:
            outcome = self._look(taken.evaluation, view)
        except Exception as exc:  # noqa: BLE001 - of this one; the others are no worse for it
            return _Decided(taken, error=exc)
        if self._submitted and _lacks_room(outcome):
            return _Decided(taken)
        self._expect(taken.evaluation, outcome)
        return _Decided(taken, outcome)

    def _look(self, evaluation: Evaluation, view: ClusterView) -> SchedulingOutcome:
        seed = zlib.crc32(f"{evaluation.id}/{view.index}".encode())
        return self._schedule(evaluation, view, self._clock.now_ns(), seed)

    def _expect(self, evaluation: Evaluation, outcome: SchedulingOutcome) -> None:
        if outcome.plan is not None:
            self._views.in_flight.submit(evaluation.id, outcome.plan.placements)
            self._submitted += 1
            self._placements_sent += _placed_by(outcome.plan)

    async def _submit(self, outcome: SchedulingOutcome, plan: Plan, token: str) -> PlanResult:
        plan.eval_token = token
        result = PlanResult()
        try:
            reply = await self._leader.submit_plan(
                SubmitPlanRequest(plan, outcome.followups, _closing(outcome))
            )
            result = reply.result
            return result
        finally:
            self._views.in_flight.resolve(plan.eval_id, result.placements, result.alloc_index)
            self._submitted -= 1
            self._placements_sent -= _placed_by(plan)
            self._answered.set()

    async def _until_answered(self) -> None:
        """All plans on their way are answered, and the store has what became of them."""
        while self._submitted:
            self._answered.clear()
            await self._answered.wait()
        await self._views.reach(self._views.in_flight.resolved_index, self._limits.sync_limit_s)

    async def _back_off(self, evaluation: Evaluation, token: str, wait_index: int) -> None:
        """The store is far behind: others may be ahead, so give back and keep away for long, or
        until the store has caught up."""
        _log.warning(
            "evaluation returned: the state is behind", eval=evaluation.id, index=wait_index
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
            await self._leader.nack(EvalTokenRequest(evaluation.id, token, untouched))
        except OrchgitError as exc:
            _log.debug("cannot return an evaluation", eval=evaluation.id, error=str(exc))


def _closing(outcome: SchedulingOutcome) -> list[Evaluation]:
    """What is stored when the evaluation ends."""
    return [outcome.evaluation] + ([outcome.blocked] if outcome.blocked else [])


def _placed_by(plan: Plan) -> int:
    return sum(len(group.alloc_ids) for group in plan.placements)


def _lacks_room(outcome: SchedulingOutcome) -> bool:
    """Whether something could not be placed, or only in the place of others."""
    plan = outcome.plan
    return bool(outcome.evaluation.failed_tg_allocs or (plan is not None and plan.preemptions))
