"""Service and batch jobs: from what is wanted and what is there to what must change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.deployment import Deployment
from orchgit.model.evaluation import DesiredUpdates
from orchgit.model.job import Job
from orchgit.model.job_allocations import SteadyGroup
from orchgit.scheduler.reconcile.changes import (
    LOST,
    NOT_NEEDED,
    Allocs,
    JobChanges,
    Stop,
    alloc_set,
)
from orchgit.scheduler.reconcile.classify import classify
from orchgit.scheduler.reconcile.deployments import DeploymentPlan
from orchgit.scheduler.reconcile.followups import Followups
from orchgit.scheduler.reconcile.group import GroupReconciler
from orchgit.scheduler.reconcile.group_state import ReconcileContext

_NOTHING: Mapping[str, SteadyGroup] = {}


def reconcile(
    world: ReconcileContext,
    allocations: Sequence[Allocation],
    latest: Deployment | None,
    steady: Mapping[str, SteadyGroup] = _NOTHING,
) -> tuple[JobChanges, DeploymentPlan]:
    """Everything the job needs; the deployment plan says what new allocations are part of.

    `steady` ones count besides `allocations`, and are left as they are."""
    deployments = DeploymentPlan(world.job, latest, world.now_ns)
    changes = JobChanges()
    followups = Followups(world.evaluation, world.ids, world.now_ns)
    groups = _by_group(world.job, allocations)
    if world.job is None or world.job.stop:
        for name, allocs in groups.items():
            live = alloc_set([a for a in allocs.values() if not a.is_terminal])
            changes.desired[name] = _stop_all(world, live, changes)
    else:
        complete = True
        for name, allocs in groups.items():
            group = world.job.group(name)
            if group is None or group.count == 0:
                # Failed and complete ones too: they are not to be tried again.
                wanted = alloc_set([a for a in allocs.values() if not a.is_server_terminal])
                changes.desired[name] = _stop_all(world, wanted, changes)
                continue
            reconciler = GroupReconciler(
                world, world.job, group, deployments, followups, changes, steady.get(name)
            )
            complete = reconciler.run(allocs) and complete
        if complete:
            deployments.complete()
        deployments.leave_initializing()
    deployments.describe_created()
    changes.deployment = deployments.created
    changes.deployment_updates = deployments.updates
    changes.followups = followups.made
    return changes, deployments


def _by_group(job: Job | None, allocations: Sequence[Allocation]) -> dict[str, Allocs]:
    groups: dict[str, Allocs] = {group.name: {} for group in (job.task_groups if job else ())}
    for allocation in allocations:
        groups.setdefault(allocation.task_group, {})[allocation.id] = allocation
    return groups


def _stop_all(world: ReconcileContext, allocs: Allocs, changes: JobChanges) -> DesiredUpdates:
    """The job or the group is not wanted any more."""
    classes = classify(allocs, world.tainted, world.group_of, world.now_ns)
    lost = {**classes.lost, **classes.expiring}
    for allocation in allocs.values():
        if allocation.id in lost:
            changes.stops.append(Stop(allocation, LOST, ClientStatus.LOST))
        else:
            changes.stops.append(Stop(allocation, NOT_NEEDED))
    return DesiredUpdates(stop=len(allocs))
