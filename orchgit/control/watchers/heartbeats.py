"""Marks nodes that missed their heartbeat: `disconnected` while an allocation of the node may wait
for it, else `down`; and creates evaluations for the node's jobs (invariant 5)."""

from __future__ import annotations

import random

import structlog

from orchgit.clock import Clock
from orchgit.control.bounded_gather import AT_ONCE, each_together
from orchgit.control.standstill import wait_and_measure
from orchgit.control.wakeup import Wakeup
from orchgit.control.watchers.heartbeat_timers import HeartbeatLimits, HeartbeatTimers
from orchgit.errors import OrchgitError
from orchgit.ids import IdSource
from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.base import datetime_of_ns, ns_of_datetime
from orchgit.model.evaluation import EvalTrigger
from orchgit.model.group import TaskGroup
from orchgit.model.new_evaluation import evaluation_of
from orchgit.model.node import NodeEvent, NodeStatus
from orchgit.replication.commands.nodes import UpdateNodeStatus
from orchgit.replication.replicated import ReplicatedState
from orchgit.state.jobs_of_node import jobs_of_node
from orchgit.state.snapshot import Snapshot

_log = structlog.get_logger(component="control")

_RETRY_S = 1.0


class Heartbeats:
    """Tracks the heartbeats of all nodes: node streams call `heartbeat`, and `run` marks silent
    nodes."""

    def __init__(
        self,
        state: ReplicatedState,
        clock: Clock,
        ids: IdSource,
        limits: HeartbeatLimits | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self._state = state
        self._clock = clock
        self._ids = ids
        self._timers = HeartbeatTimers(limits or HeartbeatLimits())
        self._chance = chance or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._changed = Wakeup(clock)
        self.missed = 0
        """Nodes that were marked, since this server leads."""

    @property
    def expected(self) -> int:
        """The number of nodes whose heartbeat is waited for."""
        return len(self._timers)

    def heartbeat(self, node_id: str) -> float:
        """Records a heartbeat and returns the seconds until the node's next one is due."""
        ttl_s = self._timers.beat(node_id, self._clock.monotonic_s(), self._chance.random())
        self._changed.set()
        return ttl_s

    def restore(self, snapshot: Snapshot) -> None:
        """Starts the timer of every node that is not down."""
        now_s = self._clock.monotonic_s()
        for node_id in snapshot.nodes.ids_up():
            self._timers.expect(node_id, now_s)

    async def run(self) -> None:
        while True:
            # Some at a time: others are heard meanwhile.
            while overdue := self._timers.overdue(self._clock.monotonic_s(), AT_ONCE):
                await each_together(self._missed, overdue)
            next_s = self._timers.next_s()
            timeout_s = None if next_s is None else next_s - self._clock.monotonic_s()
            stood_s = await wait_and_measure(self._changed, self._clock, timeout_s)
            if stood_s:
                _log.warning("this server stood still; nodes get time to be heard", s=stood_s)
                self._timers.stood_still(stood_s, self._clock.monotonic_s())

    async def _missed(self, node_id: str) -> None:
        try:
            with self._state.store.snapshot() as snapshot:
                command = self._command(snapshot, node_id)
            if command is None:
                return
            _log.warning("node missed its heartbeat", node=node_id, status=command.status)
            await self._state.propose(command)
            self.missed += 1
            if command.status == NodeStatus.DISCONNECTED:
                self.heartbeat(node_id)
        except OrchgitError as error:
            _log.warning("cannot mark a silent node", node=node_id, error=str(error))
            self._timers.look_again(node_id, self._clock.monotonic_s() + _RETRY_S)

    def _command(self, snapshot: Snapshot, node_id: str) -> UpdateNodeStatus | None:
        """Returns the command that marks a silent node; None if its status stays the same."""
        node = snapshot.nodes.get(node_id)
        if node is None or node.status == NodeStatus.DOWN:
            return None
        now_ns = self._clock.now_ns()
        waits = any(
            may_wait(allocation, _group_of(snapshot, allocation), now_ns)
            for allocation in snapshot.allocations.of_node(node_id, terminal=False)
        )
        status = NodeStatus.DISCONNECTED if waits else NodeStatus.DOWN
        if status == node.status:
            self.heartbeat(node_id)
            return None
        return UpdateNodeStatus(
            now_ns=now_ns,
            node_id=node_id,
            status=status,
            description="heartbeat missed",
            missed_heartbeat=True,
            evaluations=[
                evaluation_of(job, EvalTrigger.NODE_UPDATE, self._ids, now_ns, node=node)
                for job in jobs_of_node(snapshot, node)
            ],
            event=NodeEvent(
                message="Node heartbeat missed",
                subsystem="Cluster",
                timestamp=datetime_of_ns(now_ns),
            ),
        )


def _group_of(snapshot: Snapshot, allocation: Allocation) -> TaskGroup | None:
    job = snapshot.job_versions.of_allocation(allocation)
    return job.group(allocation.task_group) if job else None


def may_wait(allocation: Allocation, group: TaskGroup | None, now_ns: int) -> bool:
    """Returns whether the allocation may stay on its node while the node is disconnected."""
    if allocation.is_terminal or group is None:
        return False
    wait_ns = group.disconnect.lost_after_ns if group.disconnect else 0
    wait_ns = wait_ns or group.max_client_disconnect_ns or 0
    if wait_ns <= 0:
        return False
    since_ns = _unknown_since_ns(allocation)
    return since_ns is None or since_ns + wait_ns > now_ns


def _unknown_since_ns(allocation: Allocation) -> int | None:
    """Returns when the current disconnect was recorded (invariant 6); None if the allocation is not
    disconnected."""
    states = [state for state in allocation.alloc_states or () if state.field == 0]
    if not states or states[-1].value != ClientStatus.UNKNOWN or states[-1].time is None:
        return None
    return ns_of_datetime(states[-1].time)
