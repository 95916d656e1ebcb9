"""Which part of a plan may be committed. Pure: a plan and a view in, a result and reasons out.

Workers plan on snapshots that age; this is where two plans that wanted the same thing meet. Each
node of the plan is judged by itself and all its changes are taken or dropped together; with
`all_at_once` one refusal drops everything. Rejected parts make the worker look again, at
`refresh_index` or later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import msgspec

from orchgit.control.plans.node_usage import Ask, NodeUsage, ask_of, usage_of
from orchgit.model.allocation import Allocation, ClientStatus, alloc_name
from orchgit.model.deployment import Deployment
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.model.node import Eligibility, Node, NodeStatus
from orchgit.model.plan import AllocPreemption, AllocStop, AllocUpdate, Placements, Plan, PlanResult
from orchgit.model.volume import VolumeRequest
from orchgit.scheduler.placement.fit import SINGLE_WRITER, volume_source


class PlanView(Protocol):
    """The part of the newest state that a plan check reads."""

    @property
    def index(self) -> int:
        """The index of the view, returned as the refresh index when something is rejected."""
        ...

    def node(self, node_id: str) -> Node | None: ...

    def allocations_on_node(self, node_id: str) -> Sequence[Allocation]:
        """Returns at least the node's non-terminal allocations; a check ignores terminal ones."""
        ...

    def job_version(self, namespace: str, job_id: str, version: int) -> Job | None: ...


class UsageSource(Protocol):
    """Provides the usage of nodes; an implementation may cache it between plans."""

    def usage(self, node: Node, view: PlanView) -> NodeUsage:
        """Returns the node's usage, which the caller must not change."""
        ...


class ReadUsage:
    """A usage source without a cache: it reads the node's allocations each time."""

    def usage(self, node: Node, view: PlanView) -> NodeUsage:
        return usage_of(node, live_allocations(view, node.id).values())


@dataclass
class PlanCheck:
    """The result of a check: `reasons` maps rejected nodes to the reason, `usages` accepted nodes
    to their usage after the plan."""

    result: PlanResult
    reasons: dict[str, str] = field(default_factory=dict)
    usages: dict[str, NodeUsage] = field(default_factory=dict)


@dataclass(slots=True)
class NodeChange:
    """All changes of one plan to one node. A row is (index of the placements, row in them)."""

    stops: Sequence[AllocStop] = ()
    updates: Sequence[AllocUpdate] = ()
    preemptions: Sequence[AllocPreemption] = ()
    rows: Sequence[tuple[int, int]] = ()

    @property
    def only_adds(self) -> bool:
        return not (self.stops or self.updates or self.preemptions)


def examine_plan(
    plan: Plan,
    view: PlanView,
    source: UsageSource | None = None,
    changes: dict[str, NodeChange] | None = None,
) -> PlanCheck:
    """Returns which changes of the plan may be committed; `changes` is the result of
    `changes_by_node`."""
    judge = _Judge(plan, view, source or ReadUsage())
    changes = changes_by_node(plan) if changes is None else changes
    for node_id, change in changes.items():
        judge.judge(node_id, change)
        if judge.reasons and plan.all_at_once:
            break
    if not judge.reasons:
        return PlanCheck(_whole(plan, changes, view), {}, judge.usages)
    refused = PlanResult(rejected_nodes=list(judge.reasons), refresh_index=view.index)
    if plan.all_at_once:
        return PlanCheck(refused, judge.reasons)
    return PlanCheck(_partial(plan, changes, view, refused), judge.reasons, judge.usages)


def changes_by_node(plan: Plan) -> dict[str, NodeChange]:
    stops, updates = _by_node(plan.stops), _by_node(plan.updates)
    preemptions = _by_node(plan.preemptions)
    rows: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, placements in enumerate(plan.placements):
        for row, node_id in enumerate(placements.node_ids):
            rows[node_id].append((number, row))
    if not (stops or updates or preemptions):
        return {node_id: NodeChange(rows=added) for node_id, added in rows.items()}
    return {
        node_id: NodeChange(
            stops.get(node_id, ()),
            updates.get(node_id, ()),
            preemptions.get(node_id, ()),
            rows.get(node_id, ()),
        )
        for node_id in stops | updates | preemptions | rows
    }


_OnNode = TypeVar("_OnNode", AllocStop, AllocUpdate, AllocPreemption)


def _by_node(items: Iterable[_OnNode]) -> dict[str, list[_OnNode]]:
    found: defaultdict[str, list[_OnNode]] = defaultdict(list)
    for item in items:
        found[item.node_id].append(item)
    return found


def live_allocations(view: PlanView, node_id: str) -> dict[str, Allocation]:
    return {
        allocation.id: allocation
        for allocation in view.allocations_on_node(node_id)
        if not allocation.is_terminal
    }


class _Judge:
    """Judges the nodes of one plan and collects the reasons and the resulting usage."""

    def __init__(self, plan: Plan, view: PlanView, source: UsageSource) -> None:
        self._plan = plan
        self._view = view
        self._source = source
        self._asks: list[Ask | None] = [None] * len(plan.placements)
        self._writers: dict[tuple[str, str, int, str], list[VolumeRequest]] = {}
        self._places_writers = any(map(self._written, plan.placements))
        """Whether the plan places a single-writer volume; most plans do not."""
        self.reasons: dict[str, str] = {}
        self.usages: dict[str, NodeUsage] = {}

    def judge(self, node_id: str, change: NodeChange) -> None:
        change = _that_matters_there(change)
        if not (change.updates or change.rows):
            return
        node = self._view.node(node_id)
        reason = "node does not exist" if node is None else self._refusal(node, change)
        if reason:
            self.reasons[node_id] = reason

    def _refusal(self, node: Node, change: NodeChange) -> str:
        if node.status == NodeStatus.DISCONNECTED:
            valid = not change.rows and all(
                update.client_status == ClientStatus.UNKNOWN for update in change.updates
            )
            return "" if valid else "node is disconnected and contains invalid updates"
        if node.status == NodeStatus.DOWN:
            valid = not change.rows and all(map(self._may_update_on_down_node, change.updates))
            return "" if valid else "node is down and contains invalid updates"
        is_return = not change.rows and all(map(_records_return, change.updates))
        if node.status == NodeStatus.INITIALIZING and is_return:
            return ""
        if node.status != NodeStatus.READY:
            return "node is not ready for placements"
        if not change.rows and self._all_live(node.id, change.updates):
            return ""
        if node.scheduling_eligibility == Eligibility.INELIGIBLE:
            return "node is not eligible"
        return self._unfit(node, change)

    def _may_update_on_down_node(self, update: AllocUpdate) -> bool:
        if update.client_status == ClientStatus.LOST:
            return True
        if update.client_status != ClientStatus.UNKNOWN:
            return False
        allocation = live_allocations(self._view, update.node_id).get(update.alloc_id)
        group = self._group(allocation) if allocation else None
        return group is not None and group.disconnect is not None and not group.disconnect.replace

    def _all_live(self, node_id: str, updates: Sequence[AllocUpdate]) -> bool:
        live = live_allocations(self._view, node_id)
        return all(update.alloc_id in live for update in updates)

    def _unfit(self, node: Node, change: NodeChange) -> str:
        if change.only_adds:
            usage = self._source.usage(node, self._view).copy()
        else:
            usage = usage_of(node, self._staying(node.id, change))
        reason = self._add_updates(usage, node.id, change)
        reason = self._add_rows(usage, change) or reason
        reason = self._writer_conflict(node, change) or usage.over(node) or reason
        if not reason:
            self.usages[node.id] = usage
        return reason

    def _staying(self, node_id: str, change: NodeChange) -> list[Allocation]:
        """Returns the node's live allocations that the plan does not change."""
        touched = {stop.alloc_id for stop in change.stops}
        touched.update(update.alloc_id for update in change.updates)
        touched.update(preemption.alloc_id for preemption in change.preemptions)
        live = live_allocations(self._view, node_id)
        return [allocation for key, allocation in live.items() if key not in touched]

    def _add_updates(self, usage: NodeUsage, node_id: str, change: NodeChange) -> str:
        reason = ""
        live = live_allocations(self._view, node_id) if change.updates else {}
        stopped = {stop.alloc_id for stop in change.stops}
        for update in change.updates:
            if update.alloc_id in stopped:
                continue
            held = live.get(update.alloc_id)
            resources = update.allocated_resources or (held and held.allocated_resources) or None
            reason = usage.add(update.alloc_id, ask_of(resources)) or reason
        return reason

    def _add_rows(self, usage: NodeUsage, change: NodeChange) -> str:
        reason = ""
        for number, row in change.rows:
            placements = self._plan.placements[number]
            ask = self._ask(number, placements, row)
            reason = reason or usage.add(placements.alloc_ids[row], ask)
        return reason

    def _ask(self, number: int, placements: Placements, row: int) -> Ask:
        """Returns the ask of a row; rows without own ports and resources share one."""
        ports = placements.ports[row] if placements.ports else None
        if ports or row in placements.resources_of:
            return ask_of(placements.resources_of.get(row, placements.resources), ports)
        shared = self._asks[number]
        if shared is None:
            shared = self._asks[number] = ask_of(placements.resources)
        return shared

    def _writer_conflict(self, node: Node, change: NodeChange) -> str:
        """Returns the conflict over a single-writer host volume, or an empty string."""
        if not self._places_writers:
            return ""
        wanted = [
            volume
            for number, row in change.rows
            for volume in self._written_by_row(self._plan.placements[number], row)
        ]
        if not wanted:
            return ""
        taken = {
            volume
            for held in self._staying(node.id, change)
            for volume in _sources(self._written(held), held.name)
        }
        if len(wanted) != len(set(wanted)) or not taken.isdisjoint(wanted):
            return "conflicting claims for host volume with single-writer"
        return ""

    def _written_by_row(self, placements: Placements, row: int) -> list[str]:
        requests = self._written(placements)
        if not requests:
            return []
        index = placements.name_indexes[row]
        return _sources(requests, alloc_name(placements.job_id, placements.task_group, index))

    def _written(self, owner: Allocation | Placements) -> list[VolumeRequest]:
        """Returns the host volumes that the owner's group claims as their only writer."""
        key = (owner.namespace, owner.job_id, owner.job_version, owner.task_group)
        if key not in self._writers:
            job = self._view.job_version(*key[:3])
            self._writers[key] = _single_writer_volumes(job.group(key[3]) if job else None)
        return self._writers[key]

    def _group(self, allocation: Allocation) -> TaskGroup | None:
        job = self._view.job_version(
            allocation.namespace, allocation.job_id, allocation.job_version
        )
        return job.group(allocation.task_group) if job else None


def _that_matters_there(change: NodeChange) -> NodeChange:
    """Returns the change without updates of fields that only servers use (follow-up evaluation,
    reschedule history): those are accepted whatever the node's state."""
    noted = [u for u in change.updates if _is_note(u)]
    if not noted:
        return change
    updates = [update for update in change.updates if not _is_note(update)]
    return NodeChange(change.stops, updates, change.preemptions, change.rows)


def _records_return(update: AllocUpdate) -> bool:
    """Returns whether the update records that the allocation was reported again; a returning node
    may do so before it is ready."""
    return _is_note(msgspec.structs.replace(update, record_client_status=""))


def _is_note(update: AllocUpdate) -> bool:
    changes_work = update.job_version is not None or update.allocated_resources is not None
    return not (changes_work or update.client_status or update.record_client_status)


def _single_writer_volumes(group: TaskGroup | None) -> list[VolumeRequest]:
    requests = (group.volumes or {}).values() if group else ()
    return [
        request
        for request in requests
        if request.type == "host" and request.access_mode == SINGLE_WRITER and not request.read_only
    ]


def _sources(requests: list[VolumeRequest], name: str) -> list[str]:
    return [volume_source(request, name) for request in requests]


def _whole(plan: Plan, changes: dict[str, NodeChange], view: PlanView) -> PlanResult:
    return PlanResult(
        stops=plan.stops,
        placements=plan.placements,
        updates=plan.updates,
        preemptions=_still_live(changes, view, plan.preemptions),
        claims=plan.claims,
        deployment=plan.deployment,
        deployment_updates=plan.deployment_updates,
    )


def _partial(
    plan: Plan, changes: dict[str, NodeChange], view: PlanView, refused: PlanResult
) -> PlanResult:
    """Returns the changes of the nodes that were not rejected."""
    rejected = set(refused.rejected_nodes)
    placements = [kept for group in plan.placements if (kept := without_nodes(group, rejected))]
    placed = {alloc_id for group in placements for alloc_id in group.alloc_ids}
    dropped = {alloc_id for group in plan.placements for alloc_id in group.alloc_ids} - placed
    preemptions = [item for item in plan.preemptions if item.node_id not in rejected]
    return msgspec.structs.replace(
        refused,
        stops=[item for item in plan.stops if item.node_id not in rejected],
        updates=[item for item in plan.updates if item.node_id not in rejected],
        placements=placements,
        preemptions=_still_live(changes, view, preemptions),
        claims=[claim for claim in plan.claims if claim.alloc_id not in dropped],
        deployment=_without_canaries(plan, dropped),
        deployment_updates=plan.deployment_updates,
    )


def _still_live(
    changes: dict[str, NodeChange], view: PlanView, preemptions: list[AllocPreemption]
) -> list[AllocPreemption]:
    """Returns the preemptions of allocations that have not ended meanwhile."""
    live = {
        node_id: live_allocations(view, node_id)
        for node_id, change in changes.items()
        if change.preemptions
    }
    return [item for item in preemptions if item.alloc_id in live[item.node_id]]


def without_nodes(placements: Placements, node_ids: set[str]) -> Placements | None:
    """Returns the placements without the rows on these nodes, renumbered; None if no row is
    left."""
    keep = [row for row, node_id in enumerate(placements.node_ids) if node_id not in node_ids]
    if len(keep) == len(placements.node_ids):
        return placements
    if not keep:
        return None
    place = {row: position for position, row in enumerate(keep)}

    def moved(column: dict[int, object]) -> dict[int, object]:
        return {place[row]: value for row, value in column.items() if row in place}

    columns = {
        name: [getattr(placements, name)[row] for row in keep]
        for name in ("alloc_ids", "name_indexes", "node_ids", "node_names", "ports")
        if getattr(placements, name) is not None
    }
    sparse = {
        name: moved(getattr(placements, name))
        for name in ("metrics_of", "resources_of", "previous_of", "reschedule_of", "preempts_of")
    }
    canary_rows = [place[row] for row in placements.canary_rows if row in place]
    return msgspec.structs.replace(placements, **columns, **sparse, canary_rows=canary_rows)


def _without_canaries(plan: Plan, dropped: set[str]) -> Deployment | None:
    """Returns the plan's deployment without the canaries that were dropped."""
    deployment = plan.deployment
    if deployment is None:
        return None
    groups = {
        name: msgspec.structs.replace(
            group,
            placed_canaries=group.placed_canaries
            and [canary for canary in group.placed_canaries if canary not in dropped],
        )
        for name, group in deployment.task_groups.items()
    }
    return msgspec.structs.replace(deployment, task_groups=groups)
