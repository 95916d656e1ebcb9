"""One term of leadership: every loop and queue that only the leader has.

Built anew each time leadership is gained and filled from the state; dropped when it is lost. The
order of `run` is the order that matters: subscribe, catch up (barrier), read, then listen.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from orchgit.clock import Clock
from orchgit.control.evaluations.blocked import BlockedEvals
from orchgit.control.evaluations.broker import BrokerLimits, EvalBroker
from orchgit.control.evaluations.intake import EvalIntake
from orchgit.control.evaluations.queue import EvalQueue
from orchgit.control.evaluations.reaper import EvalReaper
from orchgit.control.plans.applier import PlanApplier
from orchgit.control.plans.node_rejections import NodeRejections, RejectionLimits
from orchgit.control.plans.outcome_writer import OutcomeWriter
from orchgit.control.plans.plan_counts import PlanCounts
from orchgit.control.plans.queue import PlanQueue
from orchgit.control.watchers.autopilot import Autopilot, AutopilotLimits
from orchgit.control.watchers.deployments import DeploymentWatcher
from orchgit.control.watchers.drainer import Drainer
from orchgit.control.watchers.expired_tokens import ExpiredTokens
from orchgit.control.watchers.garbage import GarbageLimits, StateGarbageCollector
from orchgit.control.watchers.heartbeat_timers import HeartbeatLimits
from orchgit.control.watchers.heartbeats import Heartbeats
from orchgit.control.watchers.periodic import PeriodicDispatcher
from orchgit.control.watchers.variable_locks import VariableLocks
from orchgit.control.watchers.volume_availability import VolumeWatcher
from orchgit.errors import ConflictError, OrchgitError
from orchgit.ids import IdSource
from orchgit.model.base import datetime_of_ns
from orchgit.model.evaluation import Evaluation
from orchgit.model.node import Eligibility, NodeEvent
from orchgit.model.plan import Plan, PlanResult
from orchgit.replication.commands.nodes import UpdateNodeEligibility
from orchgit.replication.events import AppliedBatch
from orchgit.replication.replicated import ReplicatedState
from orchgit.state.snapshot import Snapshot

_log = structlog.get_logger(component="control")

UNBLOCK_FAILED_S = 60.0
REMEMBERED_MINUTES = 15


@dataclass(frozen=True)
class ControlConfig:
    """Limits of the leader's loops; each part describes its own."""

    broker: BrokerLimits = field(default_factory=BrokerLimits)
    heartbeats: HeartbeatLimits = field(default_factory=HeartbeatLimits)
    rejections: RejectionLimits = field(default_factory=RejectionLimits)
    garbage: GarbageLimits = field(default_factory=GarbageLimits)
    autopilot: AutopilotLimits = field(default_factory=AutopilotLimits)


class Watcher(Protocol):
    """A loop that follows a part of the state. `take` only notes a batch and wakes the loop."""

    def restore(self, snapshot: Snapshot) -> None: ...

    def take(self, batch: AppliedBatch) -> None: ...

    async def run(self) -> None: ...


class ControlTerm:
    """`run` lasts as long as this server leads; `on_ready` is called when the queues are filled."""

    def __init__(
        self,
        state: ReplicatedState,
        clock: Clock,
        ids: IdSource,
        config: ControlConfig,
        on_ready: Callable[[], None],
        further: Sequence[Watcher] = (),
    ) -> None:
        """`further`: watchers that need what this package does not know."""
        self._state = state
        self._clock = clock
        self._ids = ids
        self._on_ready = on_ready
        self._broker = EvalBroker(config.broker)
        self.evaluations = EvalQueue(self._broker, clock, ids)
        self.blocked = BlockedEvals()
        self.plans = PlanQueue(clock.monotonic_s)
        self.heartbeats = Heartbeats(state, clock, ids, config.heartbeats)
        self.garbage = StateGarbageCollector(state, clock, config.garbage)
        self._rejections = NodeRejections(config.rejections)
        self._intake = EvalIntake(state.store, self.evaluations, self.blocked)
        self._applier = PlanApplier(
            state, self.plans, self.evaluations, clock, ids, self._plan_rejected
        )
        self._reaper = EvalReaper(
            state, self.evaluations, self.blocked, clock, ids, config.broker.delivery_limit
        )
        self._outcomes = OutcomeWriter(state, clock)
        self._watchers: tuple[Watcher, ...] = (
            DeploymentWatcher(state, clock, ids),
            Drainer(state, clock, ids),
            PeriodicDispatcher(state, clock, ids),
            VolumeWatcher(state, clock),
            VariableLocks(state, clock),
            ExpiredTokens(state, clock, config.garbage.token_age_s),
            *further,
        )
        self.autopilot = Autopilot(state, clock, config.autopilot)

    @property
    def plan_counts(self) -> PlanCounts:
        return self.plans.counts

    async def run(self) -> None:
        """Lead until canceled. Any loop's unexpected error ends all of them."""
        feed = self._state.subscribe()
        try:
            await self._state.writer.barrier()
            with self._state.store.snapshot() as snapshot:
                await self._restore(snapshot)
            self._on_ready()
            async with asyncio.TaskGroup() as loops:
                for loop in self._loops():
                    loops.create_task(loop)
                async for batch in feed:
                    self._take(batch)
        finally:
            self.plans.close()
            self.evaluations.close()
            feed.close()

    # -- for workers ---------------------------------------------------------------------------

    async def store_evaluations(
        self, eval_id: str, token: str, evaluations: list[Evaluation], *, ack: bool = False
    ) -> int:
        """Store what a worker decided about the evaluation it holds, and end it if `ack`. Returns
        the index. What several workers store within one turn of the event loop is one entry."""
        if not self.evaluations.holds(eval_id, token):
            raise ConflictError(
                f"cannot store evaluations for {eval_id}: it is not held under this token any more"
            )
        index = await self._outcomes.store(evaluations)
        if ack:
            self.evaluations.ack(eval_id, token)
        return index

    async def submit_plan(
        self, plan: Plan, followups: list[Evaluation], closing: list[Evaluation]
    ) -> PlanResult:
        """Have the plan applier check and commit a plan; meanwhile the worker's hold does not run
        out. A plan that is committed whole takes `closing` with it and ends its evaluation."""
        eval_id, token = plan.eval_id, plan.eval_token
        self.evaluations.extend(eval_id, token)
        result = await self.plans.submit(plan, followups, closing)
        if result.refresh_index or not closing:
            if self.evaluations.holds(eval_id, token):
                self.evaluations.extend(eval_id, token)
        elif result.alloc_index:
            self.evaluations.ack(eval_id, token)
        else:
            await self.store_evaluations(eval_id, token, followups + closing, ack=True)
        return result

    # -- inside --------------------------------------------------------------------------------

    def _loops(self) -> list[Coroutine[Any, Any, None]]:
        return [
            self.evaluations.run(),
            self._applier.run(),
            self._reaper.run_canceled(),
            self._reaper.run_failed(),
            self._tend_blocked(),
            self.heartbeats.run(),
            *(watcher.run() for watcher in self._watchers),
            self.garbage.run(),
            self.autopilot.run(),
        ]

    async def _restore(self, snapshot: Snapshot) -> None:
        """Each part reads in a turn of its own: others of the event loop come between."""
        self._broker.floor_index = snapshot.index
        self.evaluations.set_paused(snapshot.scheduler_config.get().pause_eval_broker)
        self.heartbeats.restore(snapshot)
        for watcher in self._watchers:
            await asyncio.sleep(0)
            watcher.restore(snapshot)
        await self._intake.restore(snapshot)

    def _take(self, batch: AppliedBatch) -> None:
        """Pass an applied batch on to the broker and the watchers."""
        if "scheduler_config" in batch.changed:
            with self._state.store.snapshot() as snapshot:
                self.evaluations.set_paused(snapshot.scheduler_config.get().pause_eval_broker)
        self._intake.take(batch)
        for watcher in self._watchers:
            watcher.take(batch)

    async def _tend_blocked(self) -> None:
        """Unblock evaluations whose plans kept being rejected; forget the unblock indexes that no
        snapshot is older than."""
        indexes: deque[int] = deque(maxlen=REMEMBERED_MINUTES)
        while True:
            await self._clock.sleep(UNBLOCK_FAILED_S)
            self._intake.unblock_failed()
            if len(indexes) == REMEMBERED_MINUTES:
                self.blocked.prune(indexes[0])
            indexes.append(self._state.store.watch.applied_index)

    async def _plan_rejected(self, node_id: str) -> None:
        """Count a rejection of this node's part of a plan; a node that is rejected too often
        becomes ineligible."""
        if not self._rejections.add(node_id, self._clock.monotonic_s()):
            return
        now_ns = self._clock.now_ns()
        event = NodeEvent(
            message="Node marked as ineligible for scheduling due to multiple plan rejections",
            subsystem="Scheduler",
            timestamp=datetime_of_ns(now_ns),
        )
        command = UpdateNodeEligibility(
            now_ns=now_ns, node_id=node_id, eligibility=Eligibility.INELIGIBLE, event=event
        )
        try:
            await self._state.propose(command)
        except OrchgitError as error:
            _log.warning("cannot make a node ineligible", node=node_id, error=str(error))
