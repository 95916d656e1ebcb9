"""What must hold of every decision, whatever the cluster: each rule yields what breaks it.

The rules are those that Nomad's decisions about random clusters showed; `F..` as in
`tests/golden/scheduler-families`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.model.node import Node, NodeStatus
from orchgit.model.plan import Plan
from orchgit.scheduler.outcome import SchedulingOutcome
from orchgit.scheduler.reconcile.changes import NOT_NEEDED
from orchgit.scheduler.reconcile.classify import last_recorded_status
from tests.support.cluster import ListCluster, allocation_at


@dataclass
class Decision:
    """The job's allocations before and after one evaluation, and what it decided."""

    job: Job
    nodes: dict[str, Node]
    versions: dict[int, Job]
    latest_deployment: str
    before: dict[str, Allocation]
    after: dict[str, Allocation]
    outcome: SchedulingOutcome

    @property
    def plan(self) -> Plan:
        return self.outcome.plan or Plan()

    @property
    def is_service(self) -> bool:
        return self.job.type == "service"

    @property
    def is_per_node(self) -> bool:
        return self.job.type in ("system", "sysbatch")

    def group_of(self, allocation: Allocation) -> TaskGroup | None:
        return self.versions[allocation.job_version].group(allocation.task_group)

    def lost_after_ns(self, allocation: Allocation) -> int:
        group = self.group_of(allocation)
        return group.disconnect.lost_after_ns if group and group.disconnect else 0

    def replaces(self, allocation: Allocation) -> bool:
        group = self.group_of(allocation)
        return group is None or group.disconnect is None or group.disconnect.replace

    def is_current(self, allocation: Allocation) -> bool:
        version = self.versions[allocation.job_version]
        return version.job_modify_index == self.job.job_modify_index

    @property
    def placed(self) -> list[Allocation]:
        return [
            allocation_at(columns, row)
            for columns in self.plan.placements
            for row in range(len(columns))
        ]


def broken_rules(decision: Decision, cluster: ListCluster) -> list[str]:
    """`rule: what breaks it`; empty when all hold."""
    found = [*_over_committed(cluster), *_out_of_place(decision)]
    rules = [_unwanted_groups, _in_place]
    rules += [_system_unknown, _old_on_waiting_nodes, _ended_sysbatch, _per_node] * (
        decision.is_per_node
    )
    rules += [_count_down, _service_unknown, _names, _migrations] * decision.is_service
    rules += [_new_deployment] * decision.is_service
    for rule in rules:
        found += rule(decision)
    return found


# --- all jobs -----------------------------------------------------------------------------------


def _over_committed(cluster: ListCluster) -> Iterator[str]:
    used: Counter[tuple[str, str]] = Counter()
    for allocation in cluster.allocs.values():
        if allocation.is_terminal or allocation.allocated_resources is None:
            continue
        total = allocation.allocated_resources.total()
        used[allocation.node_id, "cpu"] += total.cpu_shares
        used[allocation.node_id, "memory"] += total.memory_mb
    for (node_id, dimension), amount in used.items():
        resources = cluster.nodes[node_id].node_resources
        held = resources.cpu.cpu_shares if dimension == "cpu" else resources.memory.memory_mb
        if amount > held:
            yield f"over-committed: {dimension} of {node_id}"


def _out_of_place(decision: Decision) -> Iterator[str]:
    """New allocations are on ready nodes, by a name that the group has."""
    for allocation in decision.placed:
        if not decision.nodes[allocation.node_id].is_ready:
            yield f"placed on a node that is not ready: {allocation.name}"


def _unwanted_groups(decision: Decision) -> Iterator[str]:
    """F03: what is not wanted any more is stopped, and nothing of it comes back."""
    for allocation in decision.after.values():
        group = decision.job.group(allocation.task_group)
        if group is not None and group.count > 0:
            continue
        ended = allocation.is_server_terminal
        if decision.is_per_node:
            ended = allocation.is_terminal
        if not ended:
            yield f"F03: left of a group that is not wanted: {allocation.id}"


def _in_place(decision: Decision) -> Iterator[str]:
    """F02, F10: in-place updates belong to the latest deployment, and are healthy anew in it."""
    for update in decision.plan.updates:
        if update.job_version is None:
            continue
        allocation = decision.after[update.alloc_id]
        if allocation.deployment_id != decision.latest_deployment:
            yield f"F10: {allocation.id} is of {allocation.deployment_id!r}"
        moved = decision.before[update.alloc_id].deployment_id != allocation.deployment_id
        if moved and allocation.deployment_status is not None:
            yield f"F10: {allocation.id} keeps the health of another deployment"


# --- service ------------------------------------------------------------------------------------


def _count_down(decision: Decision) -> Iterator[str]:
    """F01: by the highest name, whether it runs or waits to be rescheduled."""
    stops = {s.alloc_id for s in decision.plan.stops if s.desired_description == NOT_NEEDED}
    names = Counter((a.task_group, a.name_index) for a in decision.before.values())
    for alloc_id in stops:
        stopped = decision.before[alloc_id]
        if not _is_plain(decision, stopped) or names[stopped.task_group, stopped.name_index] > 1:
            continue
        for other in decision.after.values():
            waits = (
                other.id in decision.before
                and other.client_status == ClientStatus.FAILED
                and other.desired_status == "run"
                and not other.alloc_states
                and other.task_group == stopped.task_group
                and other.name_index > stopped.name_index
                and not other.next_allocation
            )
            if waits:
                yield f"F01: {stopped.name} is stopped, and failed {other.name} keeps its place"


def _is_plain(decision: Decision, allocation: Allocation) -> bool:
    """It runs undisturbed, so that only the count can be what it is stopped for."""
    return (
        allocation.client_status == ClientStatus.RUNNING
        and decision.nodes[allocation.node_id].is_untainted
        and not allocation.alloc_states
        and not allocation.desired_transition.migrate
        and not (allocation.deployment_status and allocation.deployment_status.canary)
        and not any(_has_canaries(group) for group in decision.job.task_groups)
    )


def _has_canaries(group: TaskGroup) -> bool:
    return group.update is not None and group.update.canary > 0


def _service_unknown(decision: Decision) -> Iterator[str]:
    """F06: nobody waits without `lost_after`, nor for a node that is down."""
    for allocation in decision.after.values():
        was = decision.before.get(allocation.id)
        if was is None or was.client_status != ClientStatus.UNKNOWN or was.is_server_terminal:
            continue
        if allocation.is_server_terminal or not decision.replaces(allocation):
            continue
        if decision.lost_after_ns(allocation) == 0:
            yield f"F06: {allocation.id} waits without lost_after"
        if decision.nodes[allocation.node_id].status == NodeStatus.DOWN:
            yield f"F06: {allocation.id} waits on a node that is down"


def _names(decision: Decision) -> Iterator[str]:
    """F11: a new allocation's name is no other's, unless canaries share names on purpose."""
    if any(_has_canaries(group) for job in decision.versions.values() for group in job.task_groups):
        return
    wanted: Counter[str] = Counter()
    for allocation in decision.after.values():
        waits_or_runs = allocation.client_status in ("pending", "running", "failed")
        if allocation.desired_status == "run" and waits_or_runs and not allocation.next_allocation:
            wanted[allocation.name] += 1
    for allocation in decision.placed:
        if wanted[allocation.name] > 1:
            yield f"F11: {allocation.name} twice"


def _migrations(decision: Decision) -> Iterator[str]:
    """F13: what somebody stopped is migrated, which is no attempt to reschedule it."""
    for allocation in decision.placed:
        previous = decision.before.get(allocation.previous_allocation)
        if previous is not None and previous.desired_transition.migrate:
            status = previous.client_status
            if status == ClientStatus.RUNNING and allocation.reschedule_tracker is not None:
                yield f"F13: {allocation.name} counts as rescheduled"


def _new_deployment(decision: Decision) -> Iterator[str]:
    """F05: a version of which only ended allocations exist begins with a deployment."""
    plan = decision.plan
    for group in decision.job.task_groups:
        if group.update is None or group.update.max_parallel == 0:
            continue
        known = [a for a in decision.before.values() if a.task_group == group.name]
        ran = any(a.job_version == decision.job.version and not a.is_server_terminal for a in known)
        first = [
            a
            for a in decision.placed
            if a.task_group == group.name and a.job_version == decision.job.version
        ]
        if first and not ran and not plan.deployment and not decision.latest_deployment:
            yield f"F05: {group.name} begins without a deployment"


# --- system and sysbatch ------------------------------------------------------------------------


def _system_unknown(decision: Decision) -> Iterator[str]:
    """F07: without `lost_after` an unknown one is lost as soon as somebody looks again."""
    for allocation in decision.before.values():
        unknown = allocation.client_status == ClientStatus.UNKNOWN
        if not unknown or allocation.is_server_terminal or decision.lost_after_ns(allocation):
            continue
        if not decision.after[allocation.id].is_server_terminal:
            yield f"F07: {allocation.id} is left unknown"


def _old_on_waiting_nodes(decision: Decision) -> Iterator[str]:
    """F08, F15: on a node that is up and not ready old versions stop, the current one stays."""
    for allocation in decision.before.values():
        node = decision.nodes[allocation.node_id]
        group = decision.job.group(allocation.task_group)
        if allocation.is_terminal or node.is_ready or group is None or group.count == 0:
            continue
        if node.status in (NodeStatus.DOWN, NodeStatus.DISCONNECTED):
            continue
        if last_recorded_status(allocation) or allocation.desired_transition.migrate:
            continue
        ran = _ran_successfully(allocation) and decision.job.type == "sysbatch"
        mine = decision.job.node_pool in ("all", node.node_pool)
        if allocation.name_index >= group.count or ran:
            continue
        stopped = decision.after[allocation.id].is_server_terminal
        stays = decision.is_current(allocation) and mine
        if stopped == stays:
            yield f"F08: {allocation.id} on {node.id} is {'stopped' if stopped else 'left'}"


def _ran_successfully(allocation: Allocation) -> bool:
    states = (allocation.task_states or {}).values()
    return bool(states) and all(state.is_successful for state in states)


def _ended_sysbatch(decision: Decision) -> Iterator[str]:
    """F04: however a node's run ended, it is not run again until the job changes."""
    if decision.job.type != "sysbatch":
        return
    ended = {
        (a.node_id, a.name): a
        for a in sorted(decision.before.values(), key=lambda a: a.create_index)
        if a.is_terminal
    }
    for allocation in decision.placed:
        known = ended.get((allocation.node_id, allocation.name))
        if known is not None and decision.is_current(known):
            yield f"F04: {known.id} runs again"


def _per_node(decision: Decision) -> Iterator[str]:
    """F09: what a node's checks refuse is no failure; each node has `count` of each group."""
    ended = decision.outcome.evaluation
    for name, metric in (ended.failed_tg_allocs or {}).items():
        is_queued = (ended.queued_allocations or {}).get(name, 0) > 0
        if is_queued and metric.nodes_filtered and not metric.nodes_exhausted:
            yield f"F09: {name} waits for a node that does not pass its checks"
    wanted = Counter((a.node_id, a.name) for a in decision.after.values() if not a.is_terminal)
    for (node_id, name), number in wanted.items():
        if number > 1:
            yield f"per node: {name} twice on {node_id}"
