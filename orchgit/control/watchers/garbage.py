"""Deletes ended evaluations with their allocations, jobs, deployments, nodes and rollouts.

Runs at an interval, with an age for each kind, and at once for `system gc`. Deletions are proposed
in batches, so that no log entry grows with the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from orchgit.clock import SECOND_NS, Clock
from orchgit.control.bounded_gather import each_together
from orchgit.control.watchers import garbage_rules as rules
from orchgit.errors import ConflictError, NotFoundError, OrchgitError
from orchgit.model.allocation import Allocation
from orchgit.model.evaluation import EvalStatus, Evaluation
from orchgit.model.job import Job
from orchgit.model.node import NodeStatus
from orchgit.model.rollout import ROLLOUTS_KEPT
from orchgit.replication.commands.codec import Command
from orchgit.replication.commands.deployments import DeleteDeployments
from orchgit.replication.commands.evaluations import DeleteEvaluations
from orchgit.replication.commands.gitops import DeleteRollouts
from orchgit.replication.commands.jobs import DeregisterJob, JobDeletion
from orchgit.replication.commands.nodes import DeleteNodes
from orchgit.replication.replicated import ReplicatedState
from orchgit.state.chunks import chunks
from orchgit.state.snapshot import Snapshot

_log = structlog.get_logger(component="control")

T = TypeVar("T")
BATCH = 1000
LOOKED_AT_ONCE = 20
"""Evaluations judged in one turn of the event loop."""

_TERMINAL = (EvalStatus.COMPLETE, EvalStatus.FAILED, EvalStatus.CANCELLED)


@dataclass(frozen=True)
class GarbageLimits:
    """Ages after which ended objects are deleted, and how many rollouts are kept per source."""

    interval_s: float = 300.0
    evaluation_age_s: float = 3600.0
    batch_evaluation_age_s: float = 24 * 3600.0
    job_age_s: float = 4 * 3600.0
    deployment_age_s: float = 3600.0
    node_age_s: float = 24 * 3600.0
    token_age_s: float = 3600.0
    rollouts_kept: int = ROLLOUTS_KEPT


class StateGarbageCollector:
    """Collects garbage at an interval; `collect` may be called meanwhile, and collections never
    overlap."""

    def __init__(self, state: ReplicatedState, clock: Clock, limits: GarbageLimits) -> None:
        self._state = state
        self._clock = clock
        self._limits = limits
        self._busy = asyncio.Lock()

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self._limits.interval_s)
            try:
                await self.collect()
            except OrchgitError as error:
                _log.warning("cannot collect garbage", error=str(error))

    async def collect(self, force: bool = False) -> None:
        """Deletes everything that has ended; `force` ignores the ages. Raises what a proposal
        raises."""
        now_ns = self._clock.now_ns()

        def before(age_s: float) -> int:
            return now_ns if force else now_ns - round(age_s * SECOND_NS)

        limits = self._limits
        async with self._busy:
            await self._evaluations(
                before(limits.evaluation_age_s), before(limits.batch_evaluation_age_s), now_ns
            )
            job_before_ns = before(limits.job_age_s)
            over = await self._read(lambda snapshot: self._jobs_over(snapshot, job_before_ns))
            await each_together(self._forget, over)
            await self._each(self._deployments, before(limits.deployment_age_s))
            await self._each(self._nodes, before(limits.node_age_s))
            await self._each(self._rollouts, 0)

    # -- inside --------------------------------------------------------------------------------

    async def _read(self, find: Callable[[Snapshot], list[T]]) -> list[T]:
        """Returns what `find` finds; in a thread, since it may look at every object of a kind."""

        def read() -> list[T]:
            with self._state.store.snapshot() as snapshot:
                return find(snapshot)

        return await asyncio.to_thread(read)

    async def _each(self, find: Callable[[Snapshot, int], list[Command]], before_ns: int) -> None:
        for command in await self._read(lambda snapshot: find(snapshot, before_ns)):
            await self._state.propose(command)

    async def _evaluations(self, before_ns: int, batch_before_ns: int, now_ns: int) -> None:
        """Deletes ended evaluations and allocations. It judges a few at a time, because judging a
        million allocations at once would block the event loop."""

        def before(evaluation: Evaluation) -> int:
            return batch_before_ns if evaluation.type in rules.BATCH_TYPES else before_ns

        def ended(snapshot: Snapshot) -> list[Evaluation]:
            found = snapshot.evaluations.of_status(*_TERMINAL)
            return [
                evaluation for evaluation in found if rules.is_old(evaluation, before(evaluation))
            ]

        old = await self._read(ended)
        eval_ids: list[str] = []
        alloc_ids: list[str] = []
        for some in chunks(old, LOOKED_AT_ONCE):
            with self._state.store.snapshot() as snapshot:
                for evaluation in some:
                    whole, over = self._over(snapshot, evaluation, before(evaluation), now_ns)
                    eval_ids += [evaluation.id] if whole else []
                    alloc_ids += [held.id for held in over]
            await asyncio.sleep(0)
        for ids in chunks(eval_ids, BATCH):
            await self._state.propose(self._delete(eval_ids=ids))
        for ids in chunks(alloc_ids, BATCH):
            await self._state.propose(self._delete(alloc_ids=ids))

    def _over(
        self, snapshot: Snapshot, evaluation: Evaluation, before_ns: int, now_ns: int
    ) -> tuple[bool, Sequence[Allocation]]:
        ended = snapshot.allocations.of_eval(evaluation.id, terminal=True)
        live_count = snapshot.allocations.count_of_eval(evaluation.id) - len(ended)
        job = snapshot.jobs.get(evaluation.namespace, evaluation.job_id) if ended else None
        return rules.what_is_over(evaluation, ended, job, before_ns, now_ns, live_count)

    def _delete(
        self, eval_ids: Sequence[str] = (), alloc_ids: Sequence[str] = ()
    ) -> DeleteEvaluations:
        return DeleteEvaluations(
            now_ns=self._clock.now_ns(), eval_ids=list(eval_ids), alloc_ids=list(alloc_ids)
        )

    def _jobs_over(self, snapshot: Snapshot, before_ns: int) -> list[tuple[Job, list[Command]]]:
        """Returns the ended jobs whose evaluations and allocations have ended too, with the
        commands that delete them."""
        found: list[tuple[Job, list[Command]]] = []
        for job in snapshot.jobs.all():
            if not rules.job_is_over(job) or job.submit_time_ns > before_ns:
                continue
            if rules.has_tagged(snapshot.job_versions.of_job(job.namespace, job.id)):
                continue
            evaluations = snapshot.evaluations.of_job(job.namespace, job.id)
            allocations = snapshot.allocations.of_job(job.namespace, job.id)
            over = all(rules.is_old(evaluation, before_ns) for evaluation in evaluations) and all(
                rules.allocation_is_over(held, None, before_ns, before_ns) for held in allocations
            )
            if over:
                found.append((job, list(self._purge(job, evaluations, allocations))))
        return found

    async def _forget(self, over: tuple[Job, list[Command]]) -> None:
        """Deletes the job, unless it was registered again meanwhile."""
        job, commands = over
        try:
            for command in commands:
                await self._state.propose(command)
        except (ConflictError, NotFoundError) as error:
            _log.info("cannot collect a job", job=job.id, error=str(error))

    def _purge(
        self, job: Job, evaluations: Sequence[Any], allocations: Sequence[Any]
    ) -> Iterator[Command]:
        for ids in chunks([evaluation.id for evaluation in evaluations], BATCH):
            yield self._delete(eval_ids=ids)
        for ids in chunks([held.id for held in allocations], BATCH):
            yield self._delete(alloc_ids=ids)
        deletion = JobDeletion(
            namespace=job.namespace,
            job_id=job.id,
            purge=True,
            expected_modify_index=job.job_modify_index,
        )
        yield DeregisterJob(now_ns=self._clock.now_ns(), deletion=deletion)

    def _deployments(self, snapshot: Snapshot, before_ns: int) -> list[Command]:
        ids = [
            deployment.id
            for deployment in snapshot.deployments.all()
            if rules.deployment_is_old(deployment, before_ns)
            and not snapshot.allocations.has_live(deployment_id=deployment.id)
        ]
        now_ns = self._clock.now_ns()
        return [DeleteDeployments(now_ns=now_ns, ids=batch) for batch in chunks(ids, BATCH)]

    def _nodes(self, snapshot: Snapshot, before_ns: int) -> list[Command]:
        ids = [
            node.id
            for node in snapshot.nodes.of_status(NodeStatus.DOWN)
            if rules.node_is_over(node, before_ns)
            and not snapshot.allocations.occupying_node(node.id)
        ]
        now_ns = self._clock.now_ns()
        return [DeleteNodes(now_ns=now_ns, node_ids=batch) for batch in chunks(ids, BATCH)]

    def _rollouts(self, snapshot: Snapshot, _: int) -> list[Command]:
        """Returns the commands that delete the oldest ended rollouts beyond the number kept per
        source."""
        ids: list[str] = []
        for source in snapshot.sources.all():
            old = snapshot.rollouts.ended_beyond(source.name, self._limits.rollouts_kept)
            ids.extend(each for each in old if each != source.status.applied_rollout)
        now_ns = self._clock.now_ns()
        return [DeleteRollouts(now_ns=now_ns, ids=batch) for batch in chunks(ids, BATCH)]
