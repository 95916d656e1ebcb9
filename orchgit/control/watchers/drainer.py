"""Drains nodes: marks allocations to migrate within their groups' limits, and ends drains."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import structlog

from orchgit.clock import SECOND_NS, Clock
from orchgit.control.large_reads import read_state
from orchgit.control.wakeup import Wakeup
from orchgit.control.watchers.drain_rules import (
    NodeDrain,
    leave_now,
    next_of_group,
    node_drain,
    settled_at_ns,
)
from orchgit.errors import OrchgitError
from orchgit.ids import IdSource
from orchgit.model.allocation import Allocation, DesiredTransition
from orchgit.model.base import datetime_of_ns
from orchgit.model.evaluation import EvalTrigger
from orchgit.model.group import MigrateStrategy, TaskGroup
from orchgit.model.job import JobType
from orchgit.model.new_evaluation import evaluation_of
from orchgit.model.node import NodeEvent
from orchgit.replication.commands.allocations import UpdateAllocTransitions
from orchgit.replication.commands.nodes import SetNodeDrain
from orchgit.replication.events import AppliedBatch
from orchgit.replication.replicated import ReplicatedState
from orchgit.state.changes import job_key
from orchgit.state.snapshot import Snapshot

_log = structlog.get_logger(component="control")

_RETRY_S = 1.0
_REST_FACTOR = 10.0
_REST_MAX_S = 2.0


@dataclass(frozen=True, slots=True)
class _Round:
    """What one look at the draining nodes came to."""

    drains: dict[str, NodeDrain]
    moving: set[str]
    """Keys of the jobs whose groups have to move."""
    command: UpdateAllocTransitions | None
    look_again_ns: int | None


class Drainer:
    """Watches draining nodes; judges them again when an allocation on them or of a moving job
    changes."""

    def __init__(self, state: ReplicatedState, clock: Clock, ids: IdSource) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._changed = Wakeup(clock)
        self._draining: set[str] = set()
        self._moving: set[str] = set()
        """Keys of the jobs whose groups had to move in the last round."""
        self._is_looking = False
        """Whether another look at the nodes is being made: `_moving` is not known then."""
        self._alarm_ns: int | None = None

    def restore(self, snapshot: Snapshot) -> None:
        self._note_draining(snapshot.nodes.ids_draining())

    def take(self, batch: AppliedBatch) -> None:
        nodes = batch.changed.get("nodes", ())
        if nodes:
            with self._state.store.snapshot() as snapshot:
                draining = snapshot.nodes.ids_draining(nodes)
            self._draining.difference_update(nodes)
            self._note_draining(draining)
        if self._concerns(batch):
            self._changed.set()

    async def run(self) -> None:
        while True:
            await self._changed.wait_until_ns(self._alarm_ns)
            self._alarm_ns = None
            if self._draining:
                spent_s = await self._look()
                # Large jobs take long to look at: then others get their turn first.
                await self._clock.sleep(min(_REST_MAX_S, spent_s * _REST_FACTOR))

    # -- inside --------------------------------------------------------------------------------

    def _concerns(self, batch: AppliedBatch) -> bool:
        """Returns whether an allocation of a draining node or of a job that moves off one
        changed."""
        if not self._draining:
            return False
        if self._is_looking:
            return True
        on_nodes = batch.changed.get("allocations_by_node", ())
        of_jobs = batch.changed.get("allocations_by_job", ())
        return not (self._draining.isdisjoint(on_nodes) and self._moving.isdisjoint(of_jobs))

    def _note_draining(self, node_ids: Collection[str]) -> None:
        self._draining.update(node_ids)
        if node_ids:
            self._changed.set()

    async def _look(self) -> float:
        """Marks allocations and ends drains; returns the seconds it took to look at them, without
        waits for the log."""
        began_s = self._clock.monotonic_s()
        draining = sorted(self._draining)
        self._is_looking = True
        round_ = await read_state(
            self._state.store,
            lambda snapshot: self._judged(snapshot, draining),
            lambda snapshot: snapshot.allocations.count_of_jobs_on(draining),
        )
        self._is_looking = False
        self._moving = round_.moving
        spent_s = self._clock.monotonic_s() - began_s
        self._alarm_ns = round_.look_again_ns
        try:
            if round_.command is not None:
                await self._state.propose(round_.command)
            for node_id, drain in round_.drains.items():
                if drain.is_done:
                    await self._state.propose(self._end_of_drain(node_id, drain))
        except OrchgitError as error:
            _log.warning("cannot migrate allocations of draining nodes", error=str(error))
            self._alarm_ns = self._clock.now_ns() + round(_RETRY_S * SECOND_NS)
        return spent_s

    def _judged(self, snapshot: Snapshot, draining: Sequence[str]) -> _Round:
        now_ns = self._clock.now_ns()
        drains = {
            node.id: node_drain(node.drain_strategy, snapshot.allocations.of_node(node.id), now_ns)
            for node_id in draining
            if (node := snapshot.nodes.get(node_id)) is not None and node.drain_strategy is not None
        }
        leaving = {held.id: held for drain in drains.values() for held in leave_now(drain)}
        groups = {
            (held.namespace, held.job_id, held.task_group)
            for drain in drains.values()
            for held in drain.remaining
            if held.job_type == JobType.SERVICE and held.id not in leaving
        }
        moments = [drain.deadline_ns for drain in drains.values()]
        for namespace, job_id, name in sorted(groups):
            job = snapshot.jobs.get(namespace, job_id)
            group = job.group(name) if job is not None and not job.stop else None
            if group is None:
                continue
            of_group = [
                held
                for held in snapshot.allocations.of_job(namespace, job_id)
                if held.task_group == name
            ]
            for held in next_of_group(group, of_group, frozenset(drains), now_ns):
                leaving[held.id] = held
            moments += _settling_ns(group, of_group, now_ns)
        return _Round(
            drains,
            moving={job_key(namespace, job_id) for namespace, job_id, _ in groups},
            command=self._transitions(snapshot, leaving),
            look_again_ns=min((each for each in moments if each is not None), default=None),
        )

    def _transitions(
        self, snapshot: Snapshot, leaving: dict[str, Allocation]
    ) -> UpdateAllocTransitions | None:
        """Returns the command that marks the allocations to migrate, with one evaluation per
        job."""
        if not leaving:
            return None
        now_ns = self._clock.now_ns()
        keys = {(held.namespace, held.job_id) for held in leaving.values()}
        jobs = [snapshot.jobs.get(*key) for key in sorted(keys)]
        return UpdateAllocTransitions(
            now_ns=now_ns,
            transitions={alloc_id: DesiredTransition(migrate=True) for alloc_id in leaving},
            evaluations=[
                evaluation_of(job, EvalTrigger.NODE_DRAIN, self._ids, now_ns)
                for job in jobs
                if job is not None
            ],
        )

    def _end_of_drain(self, node_id: str, drain: NodeDrain) -> SetNodeDrain:
        now_ns = self._clock.now_ns()
        event = NodeEvent(
            message="Node drain complete",
            subsystem="Drain",
            details={"deadline_reached": "true"} if drain.is_late else None,
            timestamp=datetime_of_ns(now_ns),
        )
        return SetNodeDrain(now_ns=now_ns, node_id=node_id, completed=True, event=event)


def _settling_ns(group: TaskGroup, of_group: Sequence[Allocation], now_ns: int) -> Iterator[int]:
    """Yields the healthy deadlines of the allocations whose health is awaited."""
    strategy = group.migrate or MigrateStrategy()
    live = (held for held in of_group if not held.is_terminal)
    return (at_ns for held in live if (at_ns := settled_at_ns(held, strategy)) > now_ns)
