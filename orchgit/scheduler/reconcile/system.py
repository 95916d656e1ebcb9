"""System and sysbatch jobs: every node's allocations against the wanted ones of each group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
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
from orchgit.scheduler.reconcile.group_state import DESTRUCTIVE, IN_PLACE, UpdateKind

Slot = tuple[str, int]
"""(node id, name index): each node has `count` of them for each group."""


@dataclass(slots=True)
class Missing:
    """A node that lacks an allocation, with the ended one that was there by the same name."""

    node: Node
    name_index: int
    previous: Allocation | None = None


@dataclass(slots=True)
class GroupDiff:
    """What each allocation of one group becomes, and what is missing."""

    place: list[Missing] = field(default_factory=list)
    update: list[Allocation] = field(default_factory=list)
    in_place: list[Allocation] = field(default_factory=list)
    ignore: list[Allocation] = field(default_factory=list)
    stop: list[Allocation] = field(default_factory=list)
    migrate: list[Allocation] = field(default_factory=list)
    lost: list[Allocation] = field(default_factory=list)
    disconnecting: list[Allocation] = field(default_factory=list)
    reconnecting: list[Allocation] = field(default_factory=list)
    """These are updated, in place or not, or stopped besides."""


@dataclass(slots=True)
class SystemContext:
    """What the comparison knows."""

    job: Job | None
    is_sysbatch: bool
    tainted: Tainted
    candidates: Mapping[str, Node]
    """Ready nodes in the job's pool and datacenters."""
    waiting: Container[str]
    """Nodes in the job's pool that are not ready: what runs there is left to run."""
    group_of: GroupOf
    update_kind: UpdateKind
    is_current: Callable[[Allocation], bool]
    """Whether the allocation is of the job as it is now."""
    now_ns: int


def diff_system(world: SystemContext, allocations: Sequence[Allocation]) -> dict[str, GroupDiff]:
    """Group -> its difference; groups that the job does not have (any more) are stopped."""
    groups: dict[str, TaskGroup] = {}
    diffs: dict[str, GroupDiff] = {}
    if world.job is not None and not world.job.stop:
        groups = {group.name: group for group in world.job.task_groups if group.count > 0}
        diffs = {group.name: GroupDiff() for group in world.job.task_groups}
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
    world: SystemContext, group: TaskGroup, allocations: Sequence[Allocation], diff: GroupDiff
) -> None:
    covered: set[Slot] = set()
    ended: dict[Slot, Allocation] = {}
    for allocation in sorted(allocations, key=lambda a: (a.create_index, a.id)):
        slot = (allocation.node_id, allocation.name_index)
        if allocation.is_terminal:
            ended[slot] = allocation
        elif allocation.name_index >= group.count:
            diff.stop.append(allocation)
        else:
            covered.add(slot)
            _sort_in(world, group, allocation, diff)
    for node_id, node in world.candidates.items():
        for index in range(group.count):
            slot = (node_id, index)
            if slot in covered:
                continue
            previous = ended.get(slot)
            if world.is_sysbatch and previous is not None:
                # However it ended, it was the node's run until the job changes.
                _compare_version(world, group, previous, diff)
            else:
                diff.place.append(Missing(node, index, previous))


def _sort_in(
    world: SystemContext, group: TaskGroup, allocation: Allocation, diff: GroupDiff
) -> None:
    if allocation.desired_transition.migrate:
        diff.migrate.append(allocation)
    elif _expired(world, allocation):
        diff.lost.append(allocation)
    elif allocation.node_id in world.tainted:
        _sort_on_tainted(world, group, allocation, diff)
    elif last_recorded_status(allocation) != ClientStatus.UNKNOWN:
        _compare(world, group, allocation, diff)
    elif allocation.client_status == ClientStatus.RUNNING:
        diff.reconnecting.append(allocation)
        if world.is_current(allocation):
            diff.in_place.append(allocation)
        else:
            _compare(world, group, allocation, diff)
    else:
        diff.ignore.append(allocation)


def _sort_on_tainted(
    world: SystemContext, group: TaskGroup, allocation: Allocation, diff: GroupDiff
) -> None:
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
        _compare(world, group, allocation, diff)


def _compare(
    world: SystemContext, group: TaskGroup, allocation: Allocation, diff: GroupDiff
) -> None:
    """A live allocation on a node that is up: its node may not be the job's any more."""
    if allocation.node_id in world.candidates:
        _compare_version(world, group, allocation, diff)
    elif allocation.node_id in world.waiting and world.is_current(allocation):
        diff.ignore.append(allocation)
    else:
        diff.stop.append(allocation)


def _compare_version(
    world: SystemContext, group: TaskGroup, allocation: Allocation, diff: GroupDiff
) -> None:
    kind = world.update_kind(allocation, group)
    if kind == DESTRUCTIVE:
        diff.update.append(allocation)
    elif kind == IN_PLACE:
        diff.in_place.append(allocation)
    else:
        diff.ignore.append(allocation)


def _expired(world: SystemContext, allocation: Allocation) -> bool:
    """Without `lost_after` its time is up as soon as somebody looks again."""
    group = world.group_of(allocation)
    lost_after_ns = group.disconnect.lost_after_ns if group and group.disconnect else 0
    if allocation.client_status != ClientStatus.UNKNOWN:
        return False
    return unknown_since_ns(allocation) + lost_after_ns <= world.now_ns


def _ran_successfully(allocation: Allocation) -> bool:
    states = (allocation.task_states or {}).values()
    return bool(states) and all(state.is_successful for state in states)
