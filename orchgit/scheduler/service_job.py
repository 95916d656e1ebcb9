"""Schedules service and batch jobs: reconcile, then place what is missing."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.ids import IdSource
from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.deployment import Deployment
from orchgit.model.evaluation import AllocMetric, Evaluation
from orchgit.model.job import Job, JobType
from orchgit.model.node import Node, NodeStatus
from orchgit.model.plan import AllocStop, AllocUpdate, Plan
from orchgit.scheduler.finish import annotate, complete, preempting_groups
from orchgit.scheduler.outcome import SchedulingOutcome
from orchgit.scheduler.placement.place import Placer
from orchgit.scheduler.placement.stack import Stacks
from orchgit.scheduler.plan_builder import PlanBuilder
from orchgit.scheduler.ports import ClusterView
from orchgit.scheduler.ranking.proposed import Proposed
from orchgit.scheduler.reconcile.changes import UNKNOWN, JobChanges, Placement
from orchgit.scheduler.reconcile.classify import GroupOf, is_tainted
from orchgit.scheduler.reconcile.deployments import DeploymentPlan, has_deployments
from orchgit.scheduler.reconcile.group_state import ReconcileContext
from orchgit.scheduler.reconcile.service import reconcile
from orchgit.scheduler.reconcile.steady import read_allocations
from orchgit.scheduler.reconcile.unconfirmed_stops import lose_unconfirmed_stops
from orchgit.scheduler.update_decision import JobVersions, UpdateDecision


def schedule_service(
    evaluation: Evaluation, view: ClusterView, now_ns: int, seed: int, ids: IdSource
) -> SchedulingOutcome:
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
    world = ReconcileContext(
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
    lose_unconfirmed_stops(plan, allocations, world.tainted)
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
        find_eligible_classes=stacks.find_eligible_classes if stacks is not None else None,
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


def write_changes(plan: Plan, changes: JobChanges, stacks: Stacks | None) -> None:
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
    changes: JobChanges,
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
