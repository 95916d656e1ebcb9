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
    """One evaluation after its decision. `outcome` None: plans in flight left no room, so it is
    decided again after their replies. `error`: deciding it failed."""

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
        self._dequeuing: asyncio.Task[DequeueReply] | None = None
        """The latest dequeue call."""
        self._dequeued: deque[DequeuedEvaluation] = deque()
        """Evaluations that are dequeued, but not decided yet."""
        self._phase = ""
        """Why the worker dequeues nothing now; empty while it does."""
        self._work: set[asyncio.Task[None]] = set()
        self._deciding = asyncio.Lock()
        self._plans_in_flight = 0
        """Submitted plans without a reply."""
        self._placements_in_flight = 0
        """Placements of those plans."""
        self._replied = asyncio.Event()
        self._pace_s = 0.0
        """How long an evaluation took lately."""

    def set_paused(self, paused: bool) -> None:
        """The worker finishes its evaluations first; `on_status` is told when it is paused."""
        self._wanted = PAUSED if paused else STARTED
        self._changed.set()
        if paused and self._dequeuing is not None:
            self._dequeuing.cancel()

    @property
    def workload(self) -> str:
        """Nomad's word for what the worker does; the latest step when it does several things."""
        if self._phase in (RESTING, BACKING_OFF, WAITING_FOR_RAFT):
            return self._phase
        if self._plans_in_flight:
            return SUBMITTING
        return SCHEDULING if self._work else WAITING

    async def run(self) -> None:
        self._on_status(STARTED)
        try:
            while True:
                await self._pause_if_told()
                while not self._little_in_flight():
                    await asyncio.wait(self._work, return_when=asyncio.FIRST_COMPLETED)
                if self._dequeued:
                    await self._begin()
                else:
                    await self._take()
        finally:
            for work in self._work:
                work.cancel()
            await asyncio.gather(*self._work, return_exceptions=True)
            await self._nack_dequeued()

    async def _take(self) -> None:
        try:
            self._dequeued.extend(await self._dequeue())
        except UnavailableError as error:
            _log.debug("cannot dequeue from the leader", error=str(error))
            await self._clock.sleep(self._limits.leader_retry_s)

    async def _begin(self) -> None:
        """Decide the first dequeued evaluation, and as many more as fit into a slice."""
        first = self._dequeued.popleft()
        if not await self._catch_up(first):
            return
        try:
            async with self._deciding:
                decided = self._decide_slice(first)
        except asyncio.CancelledError:
            await self._nack(first.evaluation, first.token)
            raise
        for each in decided:
            work = asyncio.create_task(self._handle(each))
            self._work.add(work)
            work.add_done_callback(self._work.discard)

    def _little_in_flight(self, more: int = 0) -> bool:
        limits = self._limits
        return (
            len(self._work) + more < limits.max_in_flight
            and self._placements_in_flight < limits.max_placements_in_flight
        )

    async def _catch_up(self, taken: DequeuedEvaluation) -> bool:
        """Wait until the store is at the evaluation's wait index. False if that takes too long: the
        evaluation is nacked, and the worker backs off."""
        evaluation, token = taken.evaluation, taken.token
        try:
            with self._in_phase(WAITING_FOR_RAFT):
                await self._views.reach(taken.wait_index, self._limits.sync_limit_s)
        except TimedOutError:
            await self._back_off(evaluation, token, taken.wait_index)
            return False
        except asyncio.CancelledError:
            _log.info(
                "stopping; an evaluation that waited for the state is nacked", eval=evaluation.id
            )
            await self._nack(evaluation, token)
            raise
        return True

    async def _handle(self, decided: _Decided) -> None:
        """Finish one delivery with an ack or a nack."""
        evaluation, token = decided.taken.evaluation, decided.taken.token
        try:
            if decided.error is not None:
                raise decided.error
            outcome = decided.outcome or await self._decide(evaluation, after_replies=True)
            await self._process(evaluation, token, outcome)
        except ConflictError as error:
            _log.warning(
                "evaluation is held by another worker by now", eval=evaluation.id, error=str(error)
            )
        except OrchgitError as error:
            _log.warning("evaluation nacked", eval=evaluation.id, error=str(error))
            await self._nack(evaluation, token)
        except asyncio.CancelledError:
            await self._nack(evaluation, token)
            raise
        except Exception:  # noqa: BLE001 - the evaluation is returned, and another worker may do better
            _log.exception("deciding an evaluation failed", eval=evaluation.id)
            await self._nack(evaluation, token)

    async def _pause_if_told(self) -> None:
        """While paused, finish the dequeued evaluations and wait here."""
        if self._wanted == STARTED or self._dequeued:
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
        """The next deliveries; none when the worker is told to pause."""
        if self._wanted == PAUSED:
            return []
        request = msgspec.structs.replace(
            self._request, timeout_s=self._limits.dequeue_timeout_s, limit=self._dequeue_limit()
        )
        self._dequeuing = asyncio.create_task(self._leader.dequeue(request))
        try:
            return (await self._dequeuing).deliveries
        except asyncio.CancelledError:
            if is_canceled():
                raise
            return []

    # -- inside --------------------------------------------------------------------------------

    def _dequeue_limit(self) -> int:
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
        self, evaluation: Evaluation, *, after_replies: bool = False
    ) -> SchedulingOutcome:
        """Plans in flight may be refused yet: before an evaluation is called impossible because of
        them, the worker waits for their replies."""
        async with self._deciding:
            outcome = None if after_replies else self._decide_on_newest(evaluation)
            if outcome is None or (self._plans_in_flight and _lacks_room(outcome)):
                await self._until_no_plan_in_flight()
                outcome = self._decide_on_newest(evaluation)
            self._expect(evaluation, outcome)
            return outcome

    def _decide_on_newest(self, evaluation: Evaluation) -> SchedulingOutcome:
        with self._views.open() as view:
            return self._schedule_evaluation(evaluation, view)

    def _decide_slice(self, first: DequeuedEvaluation) -> list[_Decided]:
        """Decide several on one snapshot, each counting what those before it place."""
        began_s = self._clock.monotonic_s()
        decided: list[_Decided] = []
        try:
            with self._views.open() as view:
                decided.append(self._decide_one(first, view))
                until_s = began_s + self._limits.slice_s
                while self._may_decide_next(view, until_s, len(decided)):
                    decided.append(self._decide_one(self._dequeued.popleft(), view))
        except Exception as error:  # noqa: BLE001 - of the snapshot; the evaluation is nacked
            decided = decided or [_Decided(first, error=error)]
        took_s = self._clock.monotonic_s() - began_s
        self._pace_s = (self._pace_s + took_s / len(decided)) / 2
        return decided

    def _may_decide_next(self, view: ClusterView, until_s: float, decided: int) -> bool:
        if not self._dequeued or self._dequeued[0].wait_index > view.index:
            return False
        return self._little_in_flight(decided) and self._clock.monotonic_s() < until_s

    def _decide_one(self, taken: DequeuedEvaluation, view: ClusterView) -> _Decided:
        try:
            outcome = self._schedule_evaluation(taken.evaluation, view)
        except Exception as error:  # noqa: BLE001 - the others are decided all the same
            return _Decided(taken, error=error)
        if self._plans_in_flight and _lacks_room(outcome):
            return _Decided(taken)
        self._expect(taken.evaluation, outcome)
        return _Decided(taken, outcome)

    def _schedule_evaluation(self, evaluation: Evaluation, view: ClusterView) -> SchedulingOutcome:
        seed = zlib.crc32(f"{evaluation.id}/{view.index}".encode())
        return self._schedule(evaluation, view, self._clock.now_ns(), seed)

    def _expect(self, evaluation: Evaluation, outcome: SchedulingOutcome) -> None:
        if outcome.plan is not None:
            self._views.in_flight.submit(evaluation.id, outcome.plan.placements)
            self._plans_in_flight += 1
            self._placements_in_flight += _placed_by(outcome.plan)

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
            self._plans_in_flight -= 1
            self._placements_in_flight -= _placed_by(plan)
            self._replied.set()

    async def _until_no_plan_in_flight(self) -> None:
        """Return when every plan has its reply and the store has what was committed."""
        while self._plans_in_flight:
            self._replied.clear()
            await self._replied.wait()
        await self._views.reach(self._views.in_flight.resolved_index, self._limits.sync_limit_s)

    async def _back_off(self, evaluation: Evaluation, token: str, wait_index: int) -> None:
        """The store is far behind, and others may be ahead: nack everything, and dequeue nothing
        for long, or until the store has caught up."""
        _log.warning(
            "evaluation nacked: the state of this server is behind",
            eval=evaluation.id,
            index=wait_index,
        )
        await self._nack(evaluation, token)
        await self._nack_dequeued()
        with self._in_phase(BACKING_OFF), contextlib.suppress(TimedOutError):
            await self._views.reach(wait_index, self._limits.backoff_s)

    @contextlib.contextmanager
    def _in_phase(self, name: str) -> Iterator[None]:
        self._phase = name
        try:
            yield
        finally:
            self._phase = ""

    async def _nack_dequeued(self) -> None:
        while self._dequeued:
            taken = self._dequeued.popleft()
            await self._nack(taken.evaluation, taken.token, untouched=True)

    async def _nack(self, evaluation: Evaluation, token: str, *, untouched: bool = False) -> None:
        """Best effort: the hold runs out by itself when the leader cannot be told."""
        try:
            await self._leader.nack(EvalTokenRequest(evaluation.id, token, untouched))
        except OrchgitError as error:
            _log.debug("cannot nack an evaluation", eval=evaluation.id, error=str(error))


def _closing(outcome: SchedulingOutcome) -> list[Evaluation]:
    """The evaluations that are stored when this one ends."""
    return [outcome.evaluation] + ([outcome.blocked] if outcome.blocked else [])


def _placed_by(plan: Plan) -> int:
    return sum(len(group.alloc_ids) for group in plan.placements)


def _lacks_room(outcome: SchedulingOutcome) -> bool:
    """Whether something could not be placed, or only by preempting others."""
    plan = outcome.plan
    return bool(outcome.evaluation.failed_tg_allocs or (plan is not None and plan.preemptions))
