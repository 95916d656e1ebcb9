"""Service and batch jobs: from what is wanted and what is there to what must change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.deployment import Deployment
from orchgit.model.evaluation import DesiredUpdates
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
from orchgit.scheduler.reconcile.group_state import GroupState, ReconcileContext

_NOTHING: Mapping[str, SteadyGroup] = {}


def reconcile(
    context: ReconcileContext,
    allocations: Sequence[Allocation],
    latest: Deployment | None,
    steady: Mapping[str, SteadyGroup] = _NOTHING,
) -> tuple[JobChanges, DeploymentPlan]:
    """Everything the job needs; the deployment plan says what new allocations are part of.

    `steady` ones count besides `allocations`, and are left as they are."""
    deployments = DeploymentPlan(context.job, latest, context.now_ns)
    changes = JobChanges()
    followups = Followups(context.evaluation, context.ids, context.now_ns)
    groups: dict[str, Allocs] = {}
    for group in context.job.task_groups if context.job is not None else ():
        groups[group.name] = {}
    for allocation in allocations:
        groups.setdefault(allocation.task_group, {})[allocation.id] = allocation
    if context.job is None or context.job.stop:
        for name, allocs in groups.items():
            live = alloc_set([a for a in allocs.values() if not a.is_terminal])
            changes.desired[name] = _stop_all(context, live, changes)
    else:
        complete = True
        for name, allocs in groups.items():
            wanted_group = context.job.group(name)
            if wanted_group is None or wanted_group.count == 0:
                # Failed and complete ones too: they are not to be tried again.
                wanted = alloc_set([a for a in allocs.values() if not a.is_server_terminal])
                changes.desired[name] = _stop_all(context, wanted, changes)
                continue
            state = GroupState(
                context,
                context.job,
                wanted_group,
                deployments,
                changes,
                steady.get(name) or SteadyGroup(),
            )
            complete = GroupReconciler(state, followups).run(allocs) and complete
        if complete:
            deployments.complete()
        deployments.leave_initializing()
    deployments.describe_created()
    changes.deployment = deployments.created
    changes.deployment_updates = deployments.updates
    changes.followups = followups.made
    return changes, deployments


def _stop_all(context: ReconcileContext, allocs: Allocs, changes: JobChanges) -> DesiredUpdates:
    """Stops all: the job or the group was removed or stopped."""
    classes = classify(allocs, context.tainted, context.group_of, context.now_ns)
    lost = {**classes.lost, **classes.expiring}
    for allocation in allocs.values():
        if allocation.id in lost:
            changes.stops.append(Stop(allocation, LOST, ClientStatus.LOST))
        else:
            changes.stops.append(Stop(allocation, NOT_NEEDED))
    return DesiredUpdates(stop=len(allocs))
