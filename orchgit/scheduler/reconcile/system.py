"""System and sysbatch jobs: every node's allocations against one wanted per group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.model.node import Node, NodeStatus
from orchgit.scheduler.reconcile.classify import (
    GroupOf,
    Tainted,
    last_recorded_status,
    unknown_since_ns,
)
from orchgit.scheduler.reconcile.group_part import DESTRUCTIVE, IN_PLACE, UpdateKind


@dataclass(slots=True)
class GroupDiff:
    """What each allocation of one group becomes, and the nodes that lack one."""

    place: list[tuple[Node, Allocation | None]] = field(default_factory=list)
    """With the ended allocation that was there before."""
    update: list[Allocation] = field(default_factory=list)
    in_place: list[Allocation] = field(default_factory=list)
    ignore: list[Allocation] = field(default_factory=list)
    stop: list[Allocation] = field(default_factory=list)
    migrate: list[Allocation] = field(default_factory=list)
    lost: list[Allocation] = field(default_factory=list)
    disconnecting: list[Allocation] = field(default_factory=list)
    reconnecting: list[Allocation] = field(default_factory=list)


@dataclass(slots=True)
class SystemWorld:
    """What the comparison knows."""

    job: Job | None
    is_sysbatch: bool
    tainted: Tainted
    candidates: Mapping[str, Node]
    """Ready nodes in the job's pool and datacenters."""
    allowed: Mapping[str, Node]
    """Nodes in the job's pool and datacenters, whatever their state."""
    group_of: GroupOf
    update_kind: UpdateKind
    now_ns: int


def diff_system(world: SystemWorld, allocations: Sequence[Allocation]) -> dict[str, GroupDiff]:
    """Group -> its difference; groups that the job does not have (any more) are stopped."""
    groups: dict[str, TaskGroup] = {}
    if world.job is not None and not world.job.stop:
        groups = {group.name: group for group in world.job.task_groups if group.count > 0}
    diffs = {name: GroupDiff() for name in groups}
    by_group: dict[str, list[Allocation]] = defaultdict(list)
    for allocation in allocations:
        by_group[allocation.task_group].append(allocation)
    for name, mine in by_group.items():
        if name not in groups:
            live = [a for a in mine if not a.is_terminal]
            if live or name in diffs:
                diffs.setdefault(name, GroupDiff()).stop = live
    for name, group in groups.items():
        _diff_group(world, group, by_group[name], diffs[name])
    return diffs


def _diff_group(
    world: SystemWorld, group: TaskGroup, allocations: Sequence[Allocation], diff: GroupDiff
) -> None:
    covered: set[str] = set()
    ended: dict[str, Allocation] = {}
    for allocation in sorted(allocations, key=lambda a: (a.create_index, a.id)):
        if _is_over(world, allocation):
            ended[allocation.node_id] = allocation
        else:
            covered.add(allocation.node_id)
            _sort_in(world, group, allocation, diff)
    for node_id, node in world.candidates.items():
        if node_id not in covered:
            diff.place.append((node, ended.get(node_id)))


def _is_over(world: SystemWorld, allocation: Allocation) -> bool:
    """Whether its node is without one: for sysbatch an ended one stays the node's run."""
    if world.is_sysbatch and allocation.client_status in (
        ClientStatus.COMPLETE,
        ClientStatus.FAILED,
    ):
        return False
    return allocation.is_terminal


def _sort_in(world: SystemWorld, group: TaskGroup, allocation: Allocation, diff: GroupDiff) -> None:
    if allocation.is_terminal:
        if allocation.node_id not in world.tainted:
            _compare_version(world, group, allocation, diff)
        return
    if allocation.desired_transition.migrate:
        diff.migrate.append(allocation)
        return
    if _expired(world, allocation):
        diff.lost.append(allocation)
        return
    if allocation.node_id in world.tainted:
        _sort_on_tainted(world, allocation, diff)
        return
    if last_recorded_status(allocation) == ClientStatus.UNKNOWN:
        if allocation.client_status == ClientStatus.RUNNING:
            diff.reconnecting.append(allocation)
            diff.in_place.append(allocation)
        else:
            diff.ignore.append(allocation)
        return
    if allocation.node_id not in world.allowed:
        diff.stop.append(allocation)
        return
    _compare_version(world, group, allocation, diff)


def _sort_on_tainted(world: SystemWorld, allocation: Allocation, diff: GroupDiff) -> None:
    node = world.tainted[allocation.node_id]
    if world.is_sysbatch and _ran_successfully(allocation):
        diff.ignore.append(allocation)
    elif node is None or node.status == NodeStatus.DOWN:
        diff.lost.append(allocation)
    elif node.status == NodeStatus.DISCONNECTED:
        if allocation.client_status == ClientStatus.UNKNOWN:
            diff.ignore.append(allocation)
        elif allocation.client_status == ClientStatus.RUNNING:
            diff.disconnecting.append(allocation)
        else:
            diff.lost.append(allocation)
    else:
        diff.ignore.append(allocation)


def _compare_version(
    world: SystemWorld, group: TaskGroup, allocation: Allocation, diff: GroupDiff
) -> None:
    node = world.allowed.get(allocation.node_id)
    if node is None or not node.is_ready:
        diff.ignore.append(allocation)
        return
    kind = world.update_kind(allocation, group)
    if kind == DESTRUCTIVE:
        diff.update.append(allocation)
    elif kind == IN_PLACE:
        diff.in_place.append(allocation)
    else:
        diff.ignore.append(allocation)


def _expired(world: SystemWorld, allocation: Allocation) -> bool:
    group = world.group_of(allocation)
    lost_after_ns = group.disconnect.lost_after_ns if group and group.disconnect else 0
    if allocation.client_status != ClientStatus.UNKNOWN or not lost_after_ns:
        return False
    return unknown_since_ns(allocation) + lost_after_ns <= world.now_ns


def _ran_successfully(allocation: Allocation) -> bool:
    states = (allocation.task_states or {}).values()
    return bool(states) and all(state.is_successful for state in states)
