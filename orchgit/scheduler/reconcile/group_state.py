"""What all parts of the reconciliation of one group share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orchgit.ids import IdSource
from orchgit.model.allocation import Allocation
from orchgit.model.evaluation import DesiredUpdates, Evaluation
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.model.job_allocations import SteadyGroup
from orchgit.scheduler.reconcile.changes import Allocs, JobChanges, Placement, Stop
from orchgit.scheduler.reconcile.classify import Classes, GroupOf, Tainted, classify
from orchgit.scheduler.reconcile.deployments import DeploymentPlan

IGNORE, IN_PLACE, DESTRUCTIVE = "ignore", "in-place", "destructive"
UpdateKind = Callable[[Allocation, TaskGroup], str]


@dataclass(slots=True)
class ReconcileContext:
    """What the reconciliation of one job reads."""

    evaluation: Evaluation
    job: Job | None
    tainted: Tainted
    group_of: GroupOf
    """The group of an allocation's own job version."""
    update_kind: UpdateKind
    now_ns: int
    ids: IdSource
    is_batch: bool = False


class GroupState:
    """One group: what is known of it, and what was decided so far. All parts of its
    reconciliation share one."""

    def __init__(
        self,
        context: ReconcileContext,
        job: Job,
        group: TaskGroup,
        deployments: DeploymentPlan,
        changes: JobChanges,
        steady: SteadyGroup,
    ) -> None:
        self.context = context
        self.job = job
        self.group = group
        self.deployments = deployments
        self.changes = changes
        self.steady = steady
        self.desired = changes.desired[group.name] = DesiredUpdates()
        self.progress, self.in_deployment = deployments.group_state(group)
        """The group's part of the deployment, and whether the current deployment has it."""

    def classify(self, allocs: Allocs) -> Classes:
        context = self.context
        return classify(allocs, context.tainted, context.group_of, context.now_ns)

    @property
    def is_canarying(self) -> bool:
        return self.progress.desired_canaries > 0 and not self.progress.promoted

    @property
    def may_roll(self) -> bool:
        """Whether the deployment lets allocations of the new version replace others."""
        stuck = self.deployments.is_paused or self.deployments.is_failed
        return not stuck and not self.is_canarying

    def stop(self, allocs: Allocs, description: str, client_status: str = "") -> None:
        self.changes.stops += [Stop(a, description, client_status) for a in allocs.values()]

    def replacement(
        self, allocation: Allocation, *, rescheduling: bool = False, lost: bool = False
    ) -> Placement:
        """While canaries wait for promotion, what is not a canary is replaced by its own version
        or a newer one that is known to be good."""
        status = allocation.deployment_status
        canary = status is not None and status.canary
        return Placement(
            self.group,
            allocation.name_index,
            previous=allocation,
            canary=canary,
            rescheduling=rescheduling,
            lost=lost,
            downgrade=self.is_canarying and not canary,
            min_version=allocation.job_version,
        )
