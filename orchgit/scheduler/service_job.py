"""Schedules service and batch jobs: reconcile, then place what is missing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from orchgit.ids import IdSource
from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.deployment import Deployment
from orchgit.model.evaluation import AllocMetric, Evaluation
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job, JobType
from orchgit.model.node import Node, NodeStatus
from orchgit.model.plan import AllocStop, AllocUpdate, Plan
from orchgit.scheduler.feasibility.checks import ALL_POOLS, in_datacenters
from orchgit.scheduler.finish import annotate, complete, preempting_groups
from orchgit.scheduler.outcome import Outcome
from orchgit.scheduler.place import Placer
from orchgit.scheduler.plan_builder import PlanBuilder
from orchgit.scheduler.ports import ClusterView
from orchgit.scheduler.ranking.proposed import Proposed
from orchgit.scheduler.reconcile.changes import UNKNOWN, Changes, Placement
from orchgit.scheduler.reconcile.classify import GroupOf, is_tainted
from orchgit.scheduler.reconcile.deployments import DeploymentPlan, has_deployments
from orchgit.scheduler.reconcile.group_part import DESTRUCTIVE, IGNORE, IN_PLACE, World
from orchgit.scheduler.reconcile.service import reconcile
from orchgit.scheduler.reconcile.steady import read_allocations
from orchgit.scheduler.reconcile.unheard import give_up_unheard
from orchgit.scheduler.reconcile.updates import must_replace
from orchgit.scheduler.stack import GroupStack, Stacks


class JobVersions:
    """The versions of one job that its allocations refer to, each read once."""

    def __init__(self, view: ClusterView, current: Job | None) -> None:
        self._view = view
        self._known: dict[tuple[str, str, int], Job | None] = {}
        self._groups: dict[tuple[int, str], TaskGroup | None] = {}
        if current is not None:
            self._known[current.namespace, current.id, current.version] = current

    def of(self, allocation: Allocation) -> Job | None:
        return self.version(allocation.namespace, allocation.job_id, allocation.job_version)

    def version(self, namespace: str, job_id: str, version: int) -> Job | None:
        key = (namespace, job_id, version)
        if key not in self._known:
            self._known[key] = self._view.job_version(*key)
        return self._known[key]

    def group_of(self, allocation: Allocation) -> TaskGroup | None:
        key = (allocation.job_version, allocation.task_group)
        if key not in self._groups:
            job = self.of(allocation)
            self._groups[key] = job.group(allocation.task_group) if job is not None else None
        return self._groups[key]


class UpdateDecision:
    """Whether an allocation is up to date, can be updated in place, or must be replaced."""

    def __init__(
        self,
        job: Job | None,
        versions: JobVersions,
        stacks: Stacks | None,
        *,
        ended_are_updated: bool = False,
    ) -> None:
        self._job = job
        self._versions = versions
        self._stacks = stacks
        self._ended_are_updated = ended_are_updated
        self._by_version: dict[tuple[int, str], bool] = {}

    def kind(self, allocation: Allocation, group: TaskGroup) -> str:
        job, stacks = self._job, self._stacks
        if job is None or stacks is None or self.is_current(allocation):
            return IGNORE
        old = self._versions.of(allocation)
        if old is None or self._differs(old, job, group):
            return DESTRUCTIVE
        if allocation.is_terminal:
            return IN_PLACE if self._ended_are_updated else IGNORE
        if not self._may_stay(allocation, job, group, stacks):
            return DESTRUCTIVE
        return IN_PLACE if self._takes_updates(allocation, stacks) else IGNORE

    def is_current(self, allocation: Allocation) -> bool:
        """Whether it is of the job as it is now: a version may differ in what is not run."""
        job, old = self._job, self._versions.of(allocation)
        return job is not None and old is not None and old.job_modify_index == job.job_modify_index

    def _takes_updates(self, allocation: Allocation, stacks: Stacks) -> bool:
        """A node that is away takes none, but for what is known to be out of touch there; its
        return brings the others here again."""
        node = stacks.view.node(allocation.node_id)
        is_there = node is not None and node.status == NodeStatus.READY
        return is_there or allocation.client_status == ClientStatus.UNKNOWN

    def _differs(self, old: Job, job: Job, group: TaskGroup) -> bool:
        key = (old.version, group.name)
        if key not in self._by_version:
            self._by_version[key] = must_replace(old, job, group.name)
        return self._by_version[key]

    def _may_stay(self, allocation: Allocation, job: Job, group: TaskGroup, stacks: Stacks) -> bool:
        """Whether its node passes the new version's checks and has room for what it asks now."""
        row = stacks.columns.rows.get(allocation.node_id)
        node = stacks.columns.nodes[row] if row is not None else None
        if row is None or node is None or not in_datacenters(node, job.datacenters):
            return False
        if job.node_pool not in (ALL_POOLS, node.node_pool):
            return False
        stack = stacks.of(job, group)
        keep, _, _ = stacks.eligibility.filter(np.array([row]), group.name, stack.checks)
        if not keep[0] or _is_refused(stacks, stack, allocation, row):
            return False
        if not stack.ask.is_plain or allocation.allocated_resources is None:
            return True
        old = allocation.allocated_resources.total()
        cpu, memory, disk = stacks.proposed.usage(row)
        columns = stacks.columns
        return bool(
            cpu - old.cpu_shares + stack.ask.cpu <= columns.cpu_capacity[row]
            and memory - old.memory_mb + stack.ask.memory <= columns.memory_capacity[row]
            and disk - old.disk_mb + stack.ask.disk <= columns.disk_capacity[row]
        )


def _is_refused(stacks: Stacks, stack: GroupStack, allocation: Allocation, row: int) -> bool:
    """Whether the others of the job, or volumes, would not let it in if it came now."""
    if not stack.has_row_checks:
        return False
    held = allocation.id in stacks.claims.held_by
    selector = stacks.selector(stack)
    stacks.stop(allocation)
    refused = bool(selector.refusal(row, allocation.name))
    stacks.unstop(allocation, held_claim=held)
    return refused


def schedule_service(
    evaluation: Evaluation, view: ClusterView, now_ns: int, seed: int, ids: IdSource
) -> Outcome:
    job = view.job(evaluation.namespace, evaluation.job_id)
    key = (evaluation.namespace, evaluation.job_id)
    is_batch = evaluation.type == JobType.BATCH
    latest = None if is_batch else view.latest_deployment(*key)
    read = read_allocations(view, key, job)
    allocations = read.others
    versions = JobVersions(view, job)
    proposed = Proposed(view, key, allocations, read.steady)
    stacks = None
    if job is not None and not job.stop:
        stacks = Stacks(view, job, proposed, allocations, seed)
    world = World(
        evaluation=evaluation,
        job=job,
        tainted=tainted_nodes(view, allocations),
        group_of=versions.group_of,
        update_kind=UpdateDecision(job, versions, stacks).kind,
        now_ns=now_ns,
        ids=ids,
        is_batch=is_batch,
    )
    changes, deployments = reconcile(world, allocations, latest, read.steady)
    plan = new_plan(evaluation, job, view)
    plan.deployment = changes.deployment
    plan.deployment_updates = changes.deployment_updates
    deployment = deployments.created or latest
    deployment_id = deployment.id if deployment is not None else ""
    write_changes(plan, changes, stacks)
    write_in_place(plan, changes.in_place, job, deployment_id, view)
    give_up_unheard(plan, allocations, world.tainted)
    failed: dict[str, AllocMetric] = {}
    queued = {group.name: 0 for group in job.task_groups} if job is not None else {}
    missing: list[str] = []
    quota_reached = ""
    if stacks is not None and (changes.places or changes.destructive):
        placer = _place(
            evaluation, changes, deployments, stacks, plan, versions, allocations, ids, now_ns
        )
        failed, missing = placer.failed, placer.missing_resources
        quota_reached = placer.quota_reached
        queued = dict(placer.queued) or queued
    annotate(plan, changes.desired, preempting_groups(plan))
    return complete(
        evaluation,
        view,
        plan,
        followups=changes.followups,
        failed=failed,
        queued=queued,
        learn_classes=stacks.learn_classes if stacks is not None else None,
        missing_resources=missing,
        quota_reached=quota_reached,
        deployment_id=deployment_id,
        now_ns=now_ns,
        ids=ids,
    )


def tainted_nodes(view: ClusterView, allocations: Sequence[Allocation]) -> dict[str, Node | None]:
    """The nodes of the allocations that are not simply up."""
    nodes = {a.node_id: view.node(a.node_id) for a in allocations}
    return {node_id: node for node_id, node in nodes.items() if is_tainted(node)}


def new_plan(evaluation: Evaluation, job: Job | None, view: ClusterView) -> Plan:
    return Plan(
        eval_id=evaluation.id,
        namespace=evaluation.namespace,
        job_id=evaluation.job_id,
        job_version=job.version if job is not None else 0,
        job_modify_index=job.job_modify_index if job is not None else 0,
        job_create_index=job.create_index if job is not None else 0,
        priority=evaluation.priority,
        all_at_once=job.all_at_once if job is not None else False,
        snapshot_index=view.index,
    )


def write_changes(plan: Plan, changes: Changes, stacks: Stacks | None) -> None:
    """Stops and updates of existing allocations, but for those in place, into the plan."""
    for stop in changes.stops:
        allocation = stop.allocation
        plan.stops.append(
            AllocStop(
                alloc_id=allocation.id,
                node_id=allocation.node_id,
                desired_description=stop.description,
                client_status=stop.client_status,
                followup_eval_id=stop.followup_eval_id,
            )
        )
        if stacks is not None:
            stacks.stop(allocation)
    for entry in changes.disconnects:
        plan.updates.append(
            AllocUpdate(
                alloc_id=entry.allocation.id,
                node_id=entry.allocation.node_id,
                client_status=ClientStatus.UNKNOWN,
                client_description=UNKNOWN,
                record_client_status=ClientStatus.UNKNOWN,
                followup_eval_id=entry.followup_eval_id or None,
            )
        )
        if stacks is not None:
            stacks.claims.held_by.discard(entry.allocation.id)
    for allocation in changes.reconnects:
        plan.updates.append(
            AllocUpdate(
                alloc_id=allocation.id,
                node_id=allocation.node_id,
                record_client_status=allocation.client_status,
            )
        )
    disconnected = {entry.allocation.id for entry in changes.disconnects}
    for allocation, eval_id in changes.followup_of.values():
        if allocation.id not in disconnected:
            plan.updates.append(
                AllocUpdate(
                    alloc_id=allocation.id,
                    node_id=allocation.node_id,
                    followup_eval_id=eval_id,
                )
            )
            if stacks is not None:
                stacks.proposed.keep_place(allocation)


def write_in_place(
    plan: Plan,
    allocations: Sequence[Allocation],
    job: Job | None,
    deployment_id: str,
    view: ClusterView,
) -> None:
    """`deployment_id`: the job's latest deployment, whatever has become of it. The allocations
    belong to it from now on."""
    if job is None or not allocations:
        return
    known = {update.alloc_id: update for update in plan.updates}
    for allocation in allocations:
        update = known.get(allocation.id)
        if update is None:
            update = AllocUpdate(alloc_id=allocation.id, node_id=allocation.node_id)
            plan.updates.append(update)
        changed = allocation.deployment_id != deployment_id
        node = view.node(allocation.node_id)
        if node is not None and node.status != NodeStatus.READY:
            update.client_status = ClientStatus.UNKNOWN
        update.job_version = job.version
        update.deployment_id = deployment_id if changed else None
        update.clear_deployment_status = changed and allocation.deployment_status is not None


def _place(
    evaluation: Evaluation,
    changes: Changes,
    deployments: DeploymentPlan,
    stacks: Stacks,
    plan: Plan,
    versions: JobVersions,
    allocations: Sequence[Allocation],
    ids: IdSource,
    now_ns: int,
) -> Placer:
    group_of: GroupOf = versions.group_of
    builder = PlanBuilder(plan, evaluation, ids)
    placer = Placer(stacks, builder, evaluation, group_of, ids, now_ns)
    deployment_id = deployments.active_id
    placer.place_all(changes.destructive, {}, deployment_id)
    older: dict[int, tuple[Job, str]] = {}
    if any(placement.downgrade for placement in changes.places):
        job = stacks.job
        known = stacks.view.deployments(job.namespace, job.id)
        older = _older_jobs(changes.places, job, versions, allocations, known)
    placer.place_all(changes.places, older, deployment_id)
    return placer


def _older_jobs(
    places: Sequence[Placement],
    job: Job,
    versions: JobVersions,
    allocations: Sequence[Allocation],
    deployments: Sequence[Deployment],
) -> dict[int, tuple[Job, str]]:
    """While canaries wait, what is not a canary runs the version that is known to be good."""
    older: dict[int, tuple[Job, str]] = {}
    newest_first = sorted(deployments, key=lambda d: d.job_version, reverse=True)
    for position, placement in enumerate(places):
        if not placement.downgrade:
            continue
        name = placement.group.name
        good = next((d for d in newest_first if _is_good(d, name)), None)
        if good is not None:
            version = versions.version(job.namespace, job.id, good.job_version)
            deployment_id = good.id
        else:
            version, deployment_id = _undeployed(placement, job, versions, allocations), ""
        if version and version.version >= placement.min_version and version.group(name):
            older[position] = (version, deployment_id)
    return older


def _is_good(deployment: Deployment, group: str) -> bool:
    """Whether the group's canaries were promoted, or it had none."""
    state = deployment.task_groups.get(group)
    return state is not None and (state.promoted or state.desired_canaries == 0)


def _undeployed(
    placement: Placement, job: Job, versions: JobVersions, allocations: Sequence[Allocation]
) -> Job | None:
    """The version that ran before, if its updates are not deployments: it is good as it is."""
    name = placement.group.name
    previous = placement.previous or _newest_before(job, name, allocations)
    version = versions.of(previous) if previous is not None else None
    group = version.group(name) if version is not None else None
    return None if group is None or has_deployments(group.update) else version


def _newest_before(job: Job, group: str, allocations: Sequence[Allocation]) -> Allocation | None:
    before = [a for a in allocations if a.task_group == group and a.job_version < job.version]
    return max(before, key=lambda a: (a.job_version, a.create_index), default=None)
