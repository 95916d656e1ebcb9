"""Reads scheduling decisions as the numbers of a `FitReport`. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from orchgit.model.allocation import Allocation
from orchgit.model.evaluation import AllocMetric, Evaluation, PlanAnnotations
from orchgit.model.fit import Capacity, GroupFit, Room, RuledOut
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job, JobType
from orchgit.model.node import Node
from orchgit.model.plan import Plan

MAX_REASONS = 5
_CONSTRAINTS = ("${", "distinct_")
_AMOUNTS = frozenset(("cpu", "memory", "disk", "cores", "numa"))


@dataclass(frozen=True, slots=True)
class Decision:
    """What the scheduler decided about a job: the evaluation that it ended, and the plan."""

    evaluation: Evaluation
    plan: Plan


def group_fits(
    job: Job,
    whole: Decision,
    allocations: Iterable[Allocation],
    first: Decision | None = None,
) -> list[GroupFit]:
    """Returns what becomes of each group of the job, and of groups that it no longer has.

    `whole` decides about the whole change, as if the job had no `update` block. `first` is the
    first step of a change that goes step by step. `allocations` are those of the job.
    """
    found = {group.name: GroupFit(group.name) for group in job.task_groups}
    _count_changes(found, whole, {each.id: each.task_group for each in allocations})
    for name, metric in (whole.evaluation.failed_tg_allocs or {}).items():
        group = found.setdefault(name, GroupFit(name))
        if _is_all_filtered(job, metric):
            group.no_node_qualifies = True
        else:
            group.blocked = 1 + metric.coalesced_failures
        group.ruled_out = ruled_out(metric, job.group(name))
    if first is not None:
        _count_first_step(found, job, first)
    return list(found.values())


def _count_changes(
    found: dict[str, GroupFit], decision: Decision, group_of: dict[str, str]
) -> None:
    plan = decision.plan

    def of(name: str) -> GroupFit:
        return found.setdefault(name, GroupFit(name))

    stopped = {stop.alloc_id for stop in plan.stops}
    without_successor = set(stopped)
    for columns in plan.placements:
        successors = stopped.intersection(columns.previous_of.values())
        without_successor -= successors
        group = of(columns.task_group)
        group.replaced += len(successors)
        group.placed += len(columns) - len(successors)
        group.preempted += sum(len(victims) for victims in columns.preempts_of.values())
    for alloc_id in without_successor:
        of(group_of.get(alloc_id, "")).stopped += 1
    for update in plan.updates:
        if update.job_version is not None and update.alloc_id not in stopped:
            of(group_of.get(update.alloc_id, "")).updated += 1
    for name, updates in (plan.annotations or PlanAnnotations()).desired_tg_updates.items():
        of(name).kept = updates.ignore


def _count_first_step(found: dict[str, GroupFit], job: Job, first: Decision) -> None:
    for columns in first.plan.placements:
        group = found.setdefault(columns.task_group, GroupFit(columns.task_group))
        group.first += len(columns)
        group.canaries += len(columns.canary_rows)
    for name, metric in (first.evaluation.failed_tg_allocs or {}).items():
        group = found.setdefault(name, GroupFit(name))
        if not group.blocked and not _is_all_filtered(job, metric):
            group.first_blocked = 1 + metric.coalesced_failures
            group.ruled_out = ruled_out(metric, job.group(name))


def _is_all_filtered(job: Job, metric: AllocMetric) -> bool:
    """Returns whether the metric says that a system job qualifies for no node: nothing waits."""
    return (
        job.type in (JobType.SYSTEM, JobType.SYSBATCH)
        and metric.nodes_filtered == metric.nodes_evaluated
        and not metric.dimension_exhausted
        and not metric.quota_exhausted
    )


def ruled_out(metric: AllocMetric, group: TaskGroup | None) -> list[RuledOut]:
    """Returns at most `MAX_REASONS` reasons why no node takes the group, those of most nodes
    first. `group` is the one without a place."""
    if metric.quota_exhausted:
        return [RuledOut(f"quota reached: {', '.join(metric.quota_exhausted)}")]
    if not metric.nodes_evaluated:
        return [RuledOut("no node is eligible")]
    filtered = metric.constraint_filtered or {}
    exhausted = metric.dimension_exhausted or {}
    found = [RuledOut(_filtered(name, group), count) for name, count in filtered.items()]
    found += [
        RuledOut(f"{name} exhausted" if name in _AMOUNTS else name, count)
        for name, count in exhausted.items()
    ]
    found.sort(key=lambda each: -each.nodes)
    return found[:MAX_REASONS]


def _filtered(name: str, group: TaskGroup | None) -> str:
    if name == "missing drivers" and group is not None:
        drivers = sorted({task.driver for task in group.tasks})
        return f"missing driver{'s' * (len(drivers) != 1)} {', '.join(drivers)}"
    return f"constraint {name}" if name.startswith(_CONSTRAINTS) else name


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """What a ready node has, and what is in use before and after a change."""

    node: Node
    total: Room
    used_before: Room
    used_after: Room


def capacities(nodes: Iterable[NodeRoom]) -> list[Capacity]:
    """Returns the capacity of each node pool and datacenter, in the order of their names."""
    by_place: dict[tuple[str, str], list[NodeRoom]] = {}
    for each in nodes:
        by_place.setdefault((each.node.node_pool, each.node.datacenter), []).append(each)
    found = []
    for (pool, datacenter), held in sorted(by_place.items()):
        free_after = [_free(each.total, each.used_after) for each in held]
        found.append(
            Capacity(
                node_pool=pool,
                datacenter=datacenter,
                nodes=len(held),
                total=_sum(each.total for each in held),
                free_before=_sum(_free(each.total, each.used_before) for each in held),
                free_after=_sum(free_after),
                largest_free=Room(
                    max(each.cpu for each in free_after),
                    max(each.memory_mb for each in free_after),
                    max(each.disk_mb for each in free_after),
                ),
            )
        )
    return found


def _free(total: Room, used: Room) -> Room:
    """Returns what is left; nothing of a resource that a node has less of than is in use."""
    return Room(
        max(0, total.cpu - used.cpu),
        max(0, total.memory_mb - used.memory_mb),
        max(0, total.disk_mb - used.disk_mb),
    )


def _sum(rooms: Iterable[Room]) -> Room:
    total = Room()
    for each in rooms:
        total.cpu += each.cpu
        total.memory_mb += each.memory_mb
        total.disk_mb += each.disk_mb
    return total
