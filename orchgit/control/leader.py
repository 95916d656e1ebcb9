"""Follows leadership: there is one `ControlTerm` while this server leads, and none otherwise.

The rest of the server holds on to `Control`. Its methods use the current term; without one they
raise NotLeaderError, with the leader's address where that is known.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import structlog

from orchgit.cancellation import is_canceled
from orchgit.clock import Clock
from orchgit.control.evaluations.broker import EvalTimes, WorkerSession
from orchgit.control.leader_term import ControlConfig, ControlTerm, Watcher
from orchgit.control.plans.plan_counts import PlanCounts
from orchgit.control.watchers.autopilot import ClusterHealth
from orchgit.errors import NotLeaderError, OrchgitError
from orchgit.ids import IdSource
from orchgit.replication.replicated import ReplicatedState
from orchgit.wire.messages import (
    DequeuedEvaluation,
    DequeueReply,
    DequeueRequest,
    Empty,
    EvalsRequest,
    EvalTokenRequest,
    IndexReply,
    SubmitPlanReply,
    SubmitPlanRequest,
)

_log = structlog.get_logger(component="control")

RESTART_DELAY_S = 1.0
TAKE_OVER_WAIT_S = 5.0
MAX_POLL_S = 60.0
ELECTION_WAIT_S = 5.0
_LOOK_AGAIN_S = 0.5


@dataclass(frozen=True, slots=True)
class LeaderCounts:
    """`queues`: type of job -> evaluations that are ready, and that workers hold."""

    queues: Mapping[str, tuple[int, int]]
    times: Mapping[str, EvalTimes]
    plans: PlanCounts
    missed_heartbeats: int


class Control:
    """The leader's side of scheduling: a LeaderClient for workers, and what agents and operators
    ask of the leader."""

    def __init__(
        self,
        state: ReplicatedState,
        clock: Clock,
        ids: IdSource,
        config: ControlConfig | None = None,
        further: Callable[[], Sequence[Watcher]] = tuple,
    ) -> None:
        """`further` makes the watchers of one term that other packages have."""
        self._further = further
        self._state = state
        self._clock = clock
        self._ids = ids
        self._config = config or ControlConfig()
        self._term: ControlTerm | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()

    async def start(self) -> None:
        self._task = asyncio.create_task(self._follow_leadership())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def ready(self) -> None:
        """Return when this server leads and its queues are filled."""
        await self._ready.wait()

    async def lead_or_refuse(self) -> None:
        """Returns when this server leads and its queues are filled. NotLeaderError as soon as
        another one is known to lead, or when there is no leader in time."""
        deadline_s = self._clock.monotonic_s() + ELECTION_WAIT_S
        while not self._ready.is_set():
            leader = self._state.cluster.leader_address
            left_s = deadline_s - self._clock.monotonic_s()
            if left_s <= 0 or leader not in (None, self._state.cluster.address):
                self._leading()
            elif leader is None:
                await self._state.cluster.leader_change(None, left_s)
            else:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._ready.wait(), min(left_s, _LOOK_AGAIN_S))

    # -- for workers and agents ----------------------------------------------------------------

    @property
    def leads(self) -> bool:
        """Whether this server leads."""
        return self._state.cluster.is_leader

    def worker_gone(self, session: WorkerSession) -> None:
        """A worker's process has ended: what it held is delivered again. Where another server
        leads, that one hears of it when the worker dequeues again, or the hold runs out."""
        if self._term is not None:
            self._term.evaluations.end_session(session)

    async def dequeue(self, request: DequeueRequest, *, local: bool = False) -> DequeueReply:
        """`local`: the worker is this server's own. Workers that ask while the queues are being
        filled wait for that."""
        if self._state.cluster.is_leader and not self._ready.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ready.wait(), TAKE_OVER_WAIT_S)
        deliveries = await self._leading().evaluations.dequeue(
            request.types,
            min(max(request.timeout_s, 0.0), MAX_POLL_S),
            max(request.limit, 1),
            WorkerSession(request.worker_id, request.session, local),
        )
        return DequeueReply.of(
            [DequeuedEvaluation(one.evaluation, one.token, one.wait_index) for one in deliveries]
        )

    async def ack(self, request: EvalTokenRequest) -> Empty:
        self._leading().evaluations.ack(request.eval_id, request.token)
        return Empty()

    async def nack(self, request: EvalTokenRequest) -> Empty:
        evaluations = self._leading().evaluations
        evaluations.nack(request.eval_id, request.token, untouched=request.untouched)
        return Empty()

    async def store_evaluations(self, request: EvalsRequest) -> IndexReply:
        index = await self._leading().store_evaluations(
            request.eval_id, request.token, request.evaluations, ack=request.ack
        )
        return IndexReply(index=index, acked=request.ack)

    async def submit_plan(self, request: SubmitPlanRequest) -> SubmitPlanReply:
        result = await self._leading().submit_plan(request.plan, request.followups, request.closing)
        closed = bool(request.closing) and not result.refresh_index
        return SubmitPlanReply(result=result, closed=closed)

    def heartbeat(self, node_id: str) -> float:
        return self._leading().heartbeats.heartbeat(node_id)

    # -- for operators -------------------------------------------------------------------------

    async def collect_garbage(self) -> None:
        """Collect all garbage, however young."""
        await self._leading().garbage.collect(force=True)

    def autopilot_health(self) -> ClusterHealth:
        return self._leading().autopilot.health()

    def broker_stats(self) -> dict[str, int]:
        """Lengths of the queues, for metrics; empty on a server that does not lead."""
        term = self._term
        if term is None or not self._ready.is_set():
            return {}
        stats = asdict(term.evaluations.stats())
        blocked = term.blocked.stats()
        stats["blocked"] = blocked.blocked
        stats["blocked_escaped"] = blocked.escaped
        stats["blocked_by_quota"] = blocked.by_quota
        stats["plans_waiting"] = len(term.plans)
        stats["heartbeats"] = term.heartbeats.expected
        return stats

    def leader_counts(self) -> LeaderCounts | None:
        """Counts since this server leads, for metrics; None on a server that does not."""
        term = self._term
        if term is None or not self._ready.is_set():
            return None
        return LeaderCounts(
            term.evaluations.queues(),
            term.evaluations.times,
            term.plan_counts,
            term.heartbeats.missed,
        )

    # -- inside --------------------------------------------------------------------------------

    def _leading(self) -> ControlTerm:
        if self._term is None or not self._ready.is_set():
            if self._state.cluster.is_leader:
                raise NotLeaderError("cannot do this yet: this server is taking over the lead")
            raise NotLeaderError(
                "cannot do this here: this server does not lead; ask the leader",
                self._state.cluster.leader_address,
            )
        return self._term

    async def _follow_leadership(self) -> None:
        changes = self._state.leadership.subscribe()
        term: asyncio.Task[None] | None = None
        try:
            async for leads in changes:
                await _end(term)
                term = asyncio.create_task(self._lead()) if leads else None
                if leads:
                    _log.info("this server leads the cluster")
        finally:
            changes.close()
            await _end(term)

    async def _lead(self) -> None:
        """Run a term, and begin again from the state if a loop failed."""
        while True:
            self._term = ControlTerm(
                self._state,
                self._clock,
                self._ids,
                self._config,
                on_ready=self._ready.set,
                further=self._further(),
            )
            try:
                await self._term.run()
            except OrchgitError as error:
                _log.warning("cannot lead now", error=str(error))
            except Exception:
                # A loop that fails while all are being canceled hides the cancellation.
                if is_canceled():
                    raise
                _log.exception("a loop of the leader failed; starting over from the state")
            finally:
                self._ready.clear()
                self._term = None
            await self._clock.sleep(RESTART_DELAY_S)


async def _end(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
