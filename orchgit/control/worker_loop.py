"""What a scheduler worker does: take an evaluation, decide, submit, report, again.

    dequeue -> wait for the store -> schedule -> submit plan -> (look again) -> store outcome -> ack

Everything outside comes through two ports, the leader and the views, so the loop itself runs in
tests without a process. Any failure ends in a nack: the broker delivers the evaluation again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from orchgit.clock import Clock
from orchgit.control.worker_status import PAUSED, STARTED
from orchgit.errors import ConflictError, OrchgitError, TimedOutError, UnavailableError
from orchgit.ids import IdSource
from orchgit.model.evaluation import Evaluation
from orchgit.model.plan import Plan, PlanResult
from orchgit.scheduler.outcome import Attempts, Outcome, gave_up
from orchgit.scheduler.ports import ClusterView
from orchgit.wire.messages import DequeueReply

logger = logging.getLogger(__name__)


class LeaderPort(Protocol):
    """The leader, as a worker sees it."""

    async def dequeue(self, types: Sequence[str], timeout_s: float) -> DequeueReply: ...

    async def ack(self, eval_id: str, token: str) -> None: ...

    async def nack(self, eval_id: str, token: str) -> None: ...

    async def store(self, eval_id: str, token: str, evaluations: list[Evaluation]) -> int: ...

    async def submit(self, plan: Plan) -> PlanResult: ...


class Views(Protocol):
    """Views of the local store."""

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
    `backoff_s`: how long the worker then keeps away, unless the store catches up earlier."""

    dequeue_timeout_s: float = 20.0
    sync_limit_s: float = 5.0
    backoff_s: float = 30.0
    leader_retry_s: float = 0.2


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

    def set_paused(self, paused: bool) -> None:
        """What is being worked on is finished first; `on_status` hears when the worker rests."""
        self._wanted = PAUSED if paused else STARTED
        self._changed.set()

    async def run(self) -> None:
        self._on_status(STARTED)
        while True:
            await self._rest()
            try:
                reply = await self._dequeue()
            except UnavailableError as exc:
                logger.debug("no evaluation from the leader: %s", exc)
                await self._clock.sleep(self._limits.leader_retry_s)
                continue
            if reply.evaluation is not None:
                await self.handle(reply.evaluation, reply.token, reply.wait_index)

    async def handle(self, evaluation: Evaluation, token: str, wait_index: int) -> None:
        """Deal with one delivery: it ends in an ack or a nack."""
        try:
            await self._views.reach(wait_index, self._limits.sync_limit_s)
        except TimedOutError:
            await self._back_off(evaluation, token, wait_index)
            return
        except asyncio.CancelledError:
            logger.info("shutting down while evaluation %s waits for the store", evaluation.id)
            await self._give_back(evaluation, token)
            raise
        try:
            await self._process(evaluation, token)
            await self._leader.ack(evaluation.id, token)
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
        """While paused, wait here."""
        if self._wanted == STARTED:
            return
        self._on_status(PAUSED)
        while self._wanted == PAUSED:
            self._changed.clear()
            await self._changed.wait()
        self._on_status(STARTED)

    async def _dequeue(self) -> DequeueReply:
        """The next delivery, or none when the worker is to pause."""
        self._changed.clear()
        wait = asyncio.create_task(self._changed.wait())
        ask = asyncio.create_task(self._leader.dequeue(self._types, self._limits.dequeue_timeout_s))
        try:
            await asyncio.wait((ask, wait), return_when=asyncio.FIRST_COMPLETED)
            return ask.result() if ask.done() else DequeueReply()
        finally:
            wait.cancel()
            ask.cancel()
            await asyncio.gather(ask, wait, return_exceptions=True)

    # -- inside --------------------------------------------------------------------------------

    async def _process(self, evaluation: Evaluation, token: str) -> None:
        attempts = Attempts(evaluation.type)
        while True:
            outcome = self._decide(evaluation)
            if outcome.followups:
                await self._leader.store(evaluation.id, token, outcome.followups)
            if outcome.plan is None:
                break
            result = await self._submit(outcome.plan, token)
            if not result.refresh_index:
                break
            attempts.record(result)
            if not attempts.remain:
                outcome = gave_up(evaluation, outcome, attempts.limit, self._ids)
                break
            await self._views.reach(result.refresh_index, self._limits.sync_limit_s)
        closing = [outcome.evaluation] + ([outcome.blocked] if outcome.blocked else [])
        await self._leader.store(evaluation.id, token, closing)

    def _decide(self, evaluation: Evaluation) -> Outcome:
        with self._views.open() as view:
            seed = zlib.crc32(f"{evaluation.id}/{view.index}".encode())
            return self._schedule(evaluation, view, self._clock.now_ns(), seed)

    async def _submit(self, plan: Plan, token: str) -> PlanResult:
        plan.eval_token = token
        return await self._leader.submit(plan)

    async def _back_off(self, evaluation: Evaluation, token: str, wait_index: int) -> None:
        """The store is far behind: others may be ahead, so give back and keep away for long, or
        until the store has caught up."""
        logger.warning(
            "the store is behind index %d; evaluation %s is given back", wait_index, evaluation.id
        )
        await self._give_back(evaluation, token)
        with contextlib.suppress(TimedOutError):
            await self._views.reach(wait_index, self._limits.backoff_s)

    async def _give_back(self, evaluation: Evaluation, token: str) -> None:
        """Best effort: the hold times out by itself when the leader cannot be told."""
        try:
            await self._leader.nack(evaluation.id, token)
        except OrchgitError as exc:
            logger.debug("cannot give back evaluation %s: %s", evaluation.id, exc)
