"""The one place where plans become log entries: serial checks, overlapping commits.

    queue -> check against the newest state and the plans in flight -> propose -> reply

The next plan is checked while earlier plans are being committed, counting what those will take
(`NodeUsageCache`). What they will free counts only when it is committed: a plan that places on a
node where a plan in flight stops something waits for that plan. A rejection is final only after a
second check against a state in which every earlier plan is committed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec
import structlog

from orchgit.clock import Clock
from orchgit.control.plans.check import NodeChange, PlanCheck, changes_by_node, examine_plan
from orchgit.control.plans.node_cache import NodeCache
from orchgit.control.plans.queue import PendingPlan, PlanQueue
from orchgit.control.plans.quota_check import NamespaceQuotas, exceeded
from orchgit.control.plans.usage_cache import NodeUsageCache
from orchgit.errors import ConflictError, NotUnderstoodError, OrchgitError, UnavailableError
from orchgit.ids import IdSource
from orchgit.model.allocation import Allocation
from orchgit.model.evaluation import EvalTrigger, Evaluation
from orchgit.model.job import Job
from orchgit.model.new_evaluation import evaluation_of
from orchgit.model.node import Node
from orchgit.model.plan import Plan, PlanResult
from orchgit.model.quota import QuotaSpec
from orchgit.replication.commands.plans import ApplyPlanResult
from orchgit.replication.replicated import Applied, ReplicatedState
from orchgit.state.snapshot import Snapshot

_log = structlog.get_logger(component="control")

MAX_IN_FLIGHT = 32


class HoldsEvaluation(Protocol):
    """The part of the evaluation queue that the applier uses."""

    def holds(self, eval_id: str, token: str) -> bool: ...

    def note_index(self, key: tuple[str, str], index: int) -> None: ...


class PlanCheckView:
    """The state that a plan check reads: one snapshot, and the cached nodes."""

    def __init__(self, snapshot: Snapshot, nodes: NodeCache) -> None:
        nodes.refresh(snapshot)
        self.snapshot = snapshot
        self._nodes = nodes
        self.index = snapshot.index

    def close(self) -> None:
        self.snapshot.close()

    def node(self, node_id: str) -> Node | None:
        return self._nodes.node(self.snapshot, node_id)

    def allocations_on_node(self, node_id: str) -> Sequence[Allocation]:
        return self.snapshot.allocations.of_node(node_id, terminal=False)

    def job_version(self, namespace: str, job_id: str, version: int) -> Job | None:
        return self.snapshot.job_versions.get(namespace, job_id, version)


class PlanApplier:
    """Checks and commits plans one after the other; calls `on_rejected` with each node that a plan
    was rejected for."""

    def __init__(
        self,
        state: ReplicatedState,
        queue: PlanQueue,
        evaluations: HoldsEvaluation,
        clock: Clock,
        ids: IdSource,
        on_rejected: Callable[[str], Awaitable[None]],
    ) -> None:
        self._state = state
        self._queue = queue
        self._evaluations = evaluations
        self._clock = clock
        self._ids = ids
        self._on_rejected = on_rejected
        self.counts = queue.counts
        self._usages = NodeUsageCache()
        self._nodes = NodeCache()
        self._quotas = NamespaceQuotas()
        self._view: PlanCheckView | None = None
        self._commits: set[asyncio.Task[None]] = set()
        self._touched: Counter[str] = Counter()
        """Nodes that plans in flight change."""
        self._freed: Counter[str] = Counter()
        """Nodes on which plans in flight stop, evict or update allocations."""

    async def run(self) -> None:
        """Applies plans until canceled; proposals in flight at that moment may still be
        committed."""
        while True:
            pending = await self._queue.next()
            try:
                await self._apply(pending)
            except OrchgitError as error:
                _answer(pending, error)
            except BaseException:
                _answer(pending, UnavailableError("cannot apply the plan: the applier stops"))
                raise

    async def _apply(self, pending: PendingPlan) -> None:
        plan = pending.plan
        if not self._evaluations.holds(plan.eval_id, plan.eval_token):
            raise ConflictError(
                f"cannot apply the plan of evaluation {plan.eval_id}: it is not held any more"
            )
        began_s = self._clock.monotonic_s()
        check, changes = await self._check(plan)
        self.counts.evaluate.observe(self._clock.monotonic_s() - began_s)
        self.counts.rejected_nodes += len(check.reasons)
        for node_id in check.reasons:
            await self._on_rejected(node_id)
        result = check.result
        if _is_empty(result):
            _answer(pending, result)
            return
        self._usages.record(check.usages)
        while len(self._commits) >= MAX_IN_FLIGHT:
            await asyncio.wait(self._commits, return_when=asyncio.FIRST_COMPLETED)
        self._start_commit(pending, result, changes)

    # -- checking ------------------------------------------------------------------------------

    async def _check(self, plan: Plan) -> tuple[PlanCheck, dict[str, NodeChange]]:
        changes = changes_by_node(plan)
        quota = self._quota_of(plan)
        if quota is not None:
            await self._drain()
        check, changes = await self._check_nodes(plan, changes)
        if quota is None:
            return check, changes
        view = self._view_of_this_turn()
        over = exceeded(quota, plan.namespace, check.result, view.snapshot)
        if not over:
            return check, changes
        _log.info("a plan exceeds a quota", eval=plan.eval_id, quota=quota.name, exceeded=over)
        nodes = {node_id for group in plan.placements for node_id in group.node_ids}
        refused = PlanResult(rejected_nodes=sorted(nodes), refresh_index=view.index)
        return PlanCheck(refused, check.reasons), changes

    def _quota_of(self, plan: Plan) -> QuotaSpec | None:
        index = self._state.store.watch.index(("namespaces", "quotas"))
        return self._quotas.of(plan.namespace, self._view_of_this_turn().snapshot, index)

    async def _check_nodes(
        self, plan: Plan, changes: dict[str, NodeChange]
    ) -> tuple[PlanCheck, dict[str, NodeChange]]:
        if any(self._must_wait(node_id, change) for node_id, change in changes.items()):
            await self._drain()
        check = self._examine(plan, changes)
        if not check.reasons:
            return check, changes
        was_known = self._usages.forget(check.reasons)
        if was_known or self._commits:
            await self._drain()
            check = self._examine(plan, changes)
        return check, changes

    def _must_wait(self, node_id: str, change: NodeChange) -> bool:
        """Returns whether the plan must wait for earlier plans before the node's usage is known. A
        change that only stops allocations never waits."""
        if node_id not in self._touched or not (change.rows or change.updates):
            return False
        return not change.only_adds or node_id in self._freed or node_id not in self._usages

    def _examine(self, plan: Plan, changes: dict[str, NodeChange]) -> PlanCheck:
        return examine_plan(plan, self._view_of_this_turn(), self._usages, changes)

    def _view_of_this_turn(self) -> PlanCheckView:
        """Returns one view for all plans that are checked in one turn of the event loop. No plan in
        flight is answered during a turn, so the usage cache still counts what the view lacks."""
        if self._view is None:
            self._view = PlanCheckView(self._state.store.snapshot(), self._nodes)
            asyncio.get_running_loop().call_soon(self._close_view)
        return self._view

    def _close_view(self) -> None:
        if self._view is not None:
            self._view.close()
            self._view = None

    async def _drain(self) -> None:
        if self._commits:
            await asyncio.wait(self._commits)

    # -- committing ----------------------------------------------------------------------------

    def _start_commit(
        self, pending: PendingPlan, result: PlanResult, changes: dict[str, NodeChange]
    ) -> None:
        freed = [node_id for node_id, change in changes.items() if not change.only_adds]
        self._touched.update(list(changes))
        self._freed.update(freed)
        task = asyncio.create_task(self._commit(pending, result))
        self._commits.add(task)

        def done(_: asyncio.Task[None]) -> None:
            self._commits.discard(task)
            _subtract(self._touched, list(changes))
            _subtract(self._freed, freed)
            # Stopped allocations of accepted nodes without placements are in no usage: read anew.
            self._usages.forget(freed)

        task.add_done_callback(done)

    async def _commit(self, pending: PendingPlan, result: PlanResult) -> None:
        plan = pending.plan
        command = ApplyPlanResult(
            now_ns=self._clock.now_ns(),
            namespace=plan.namespace,
            job_id=plan.job_id,
            job_version=plan.job_version,
            job_create_index=plan.job_create_index,
            eval_id=plan.eval_id,
            result=result,
            evaluations=self._evaluations_of_evicted(result)
            + pending.followups
            + ([] if result.rejected_nodes else pending.closing),
        )
        began_s = self._clock.monotonic_s()
        try:
            applied = await self._propose(command)
            self.counts.commit.observe(self._clock.monotonic_s() - began_s)
        except OrchgitError as error:
            _log.warning("cannot commit a plan", eval=plan.eval_id, error=str(error))
            self._usages.forget(
                {node_id for group in result.placements for node_id in group.node_ids}
            )
            if isinstance(error, ConflictError):
                # The job was purged, or registered anew under its name, after the plan was made:
                # nothing is committed, and the worker decides on what is there now.
                _answer(pending, PlanResult(refresh_index=self._state.store.watch.applied_index))
            else:
                _answer(pending, error)
            return
        self._evaluations.note_index((plan.namespace, plan.job_id), applied.index)
        refresh_index = applied.index if result.rejected_nodes else 0
        _answer(
            pending,
            msgspec.structs.replace(result, alloc_index=applied.index, refresh_index=refresh_index),
        )

    async def _propose(self, command: ApplyPlanResult) -> Applied:
        try:
            return await self._state.propose(command)
        except NotUnderstoodError:
            return await self._state.propose(command.earlier_form())

    def _evaluations_of_evicted(self, result: PlanResult) -> list[Evaluation]:
        """Returns one evaluation for each job that lost allocations to this plan."""
        if not result.preemptions:
            return []
        with self._state.store.snapshot() as snapshot:
            evicted = [snapshot.allocations.get(item.alloc_id) for item in result.preemptions]
            keys = {(held.namespace, held.job_id) for held in evicted if held is not None}
            jobs = [snapshot.jobs.get(*key) for key in sorted(keys)]
        now_ns = self._clock.now_ns()
        return [
            evaluation_of(job, EvalTrigger.PREEMPTION, self._ids, now_ns)
            for job in jobs
            if job is not None
        ]


def _is_empty(result: PlanResult) -> bool:
    return not (
        result.stops
        or result.placements
        or result.updates
        or result.preemptions
        or result.deployment
        or result.deployment_updates
    )


def _subtract(counter: Counter[str], keys: Sequence[str]) -> None:
    for key in keys:
        counter[key] -= 1
        if counter[key] <= 0:
            del counter[key]


def _answer(pending: PendingPlan, outcome: PlanResult | OrchgitError) -> None:
    if pending.answer.done():
        return
    if isinstance(outcome, OrchgitError):
        pending.answer.set_exception(outcome)
    else:
        pending.answer.set_result(outcome)
