"""Schedules service and batch jobs: reconcile, then place what is missing."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.allocation import Allocation
from orchgit.model.deployment import Deployment
from orchgit.model.job import Job, JobType
from orchgit.scheduler.finish import Unplaced, complete
from orchgit.scheduler.inputs import SchedulingInputs
from orchgit.scheduler.outcome import SchedulingOutcome
from orchgit.scheduler.placement.place import Placer
from orchgit.scheduler.placement.stack import Stacks
from orchgit.scheduler.plan_builder import PlanBuilder
from orchgit.scheduler.plan_changes import new_plan, write_changes, write_in_place
from orchgit.scheduler.ranking.proposed import Proposed
from orchgit.scheduler.reconcile.changes import Placement
from orchgit.scheduler.reconcile.classify import tainted_nodes
from orchgit.scheduler.reconcile.deployments import has_deployments
from orchgit.scheduler.reconcile.group_state import ReconcileContext
from orchgit.scheduler.reconcile.service import reconcile
from orchgit.scheduler.reconcile.steady import read_allocations
from orchgit.scheduler.reconcile.unconfirmed_stops import lose_unconfirmed_stops
from orchgit.scheduler.update_decision import JobVersions, UpdateDecision


def schedule_service(inputs: SchedulingInputs) -> SchedulingOutcome:
    view, key = inputs.view, inputs.job_key
    job = view.job(*key)
    is_batch = inputs.evaluation.type == JobType.BATCH
    latest = None if is_batch else view.latest_deployment(*key)
    read = read_allocations(view, key, job)
    allocations = read.others
    versions = JobVersions(view, job)
    proposed = Proposed(view, key, allocations, read.steady)
    stacks = None
    if job is not None and not job.stop:
        stacks = Stacks(view, job, proposed, allocations, inputs.seed)
    context = ReconcileContext(
        evaluation=inputs.evaluation,
        job=job,
        tainted=tainted_nodes(view, allocations),
        group_of=versions.group_of,
        update_kind=UpdateDecision(job, versions, stacks).kind,
        now_ns=inputs.now_ns,
        ids=inputs.ids,
        is_batch=is_batch,
    )
    changes, deployments = reconcile(context, allocations, latest, read.steady)
    plan = new_plan(inputs, job)
    plan.deployment = changes.deployment
    plan.deployment_updates = changes.deployment_updates
    deployment = deployments.created or latest
    deployment_id = deployment.id if deployment is not None else ""
    write_changes(plan, changes, stacks)
    write_in_place(plan, changes.in_place, job, deployment_id, view)
    lose_unconfirmed_stops(plan, allocations, context.tainted)
    unplaced = Unplaced()
    if stacks is not None:
        unplaced.find_eligible_classes = stacks.find_eligible_classes
        if changes.places or changes.destructive:
            builder = PlanBuilder(plan, inputs.evaluation, inputs.ids)
            placer = Placer(inputs, stacks, builder, versions.group_of, unplaced)
            placer.place_all(changes.destructive, {}, deployments.active_id)
            older = _older_jobs(changes.places, stacks, versions, allocations)
            placer.place_all(changes.places, older, deployments.active_id)
    if job is not None and not unplaced.queued:
        unplaced.queued.update({group.name: 0 for group in job.task_groups})
    return complete(
        inputs,
        plan,
        changes.desired,
        unplaced,
        followups=changes.followups,
        deployment_id=deployment_id,
    )


def _older_jobs(
    places: Sequence[Placement],
    stacks: Stacks,
    versions: JobVersions,
    allocations: Sequence[Allocation],
) -> dict[int, tuple[Job, str]]:
    """Position -> (job version to place, its deployment), for what is not a canary while canaries
    wait: the newest version whose group was promoted, or had no canaries."""
    older: dict[int, tuple[Job, str]] = {}
    if not any(placement.downgrade for placement in places):
        return older
    job = stacks.job
    deployments = stacks.view.deployments(job.namespace, job.id)
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
    progress = deployment.task_groups.get(group)
    return progress is not None and (progress.promoted or progress.desired_canaries == 0)


def _undeployed(
    placement: Placement, job: Job, versions: JobVersions, allocations: Sequence[Allocation]
) -> Job | None:
    """The version that ran before, if its updates are not deployments: it is good as it is."""
    name = placement.group.name
    previous = placement.previous
    if previous is None:
        before = [a for a in allocations if a.task_group == name and a.job_version < job.version]
        previous = max(before, key=lambda a: (a.job_version, a.create_index), default=None)
    version = versions.of(previous) if previous is not None else None
    group = version.group(name) if version is not None else None
    return None if group is None or has_deployments(group.update) else version
