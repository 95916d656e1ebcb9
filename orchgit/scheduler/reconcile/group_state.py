"""What all parts of a group's reconciliation share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orchgit.ids import IdSource
from orchgit.model.allocation import Allocation
from orchgit.model.evaluation import DesiredUpdates, Evaluation
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job
from orchgit.model.job_allocations import SteadyGroup
from orchgit.scheduler.reconcile.changes import Allocs, JobChanges, Placement
from orchgit.scheduler.reconcile.classify import Classes, GroupOf, Tainted, classify
from orchgit.scheduler.reconcile.deployments import DeploymentPlan
from orchgit.scheduler.reconcile.followups import Followups

IGNORE, IN_PLACE, DESTRUCTIVE = "ignore", "in-place", "destructive"
UpdateKind = Callable[[Allocation, TaskGroup], str]


@dataclass(slots=True)
class ReconcileContext:
    """What a reconciliation of one job knows."""

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
    """One group: what is known of it, and what has been decided so far."""

    def __init__(
        self,
        world: ReconcileContext,
        job: Job,
        group: TaskGroup,
        deployments: DeploymentPlan,
        followups: Followups,
        changes: JobChanges,
        steady: SteadyGroup | None = None,
    ) -> None:
        self._world = world
        self._job = job
        self._group = group
        self._deployments = deployments
        self._followups = followups
        self._changes = changes
        self._steady = steady or SteadyGroup()
        self._desired = DesiredUpdates()
        self._state, self._in_deployment = deployments.group_state(group)
        self._disconnecting: Allocs = {}
        self._returned: Allocs = {}
        """Originals that their node brings back, and that stay."""
        changes.desired[group.name] = self._desired

    def _classify(self, allocs: Allocs) -> Classes:
        world = self._world
        return classify(allocs, world.tainted, world.group_of, world.now_ns)

    @property
    def _is_canarying(self) -> bool:
        return self._state.desired_canaries > 0 and not self._state.promoted

    @property
    def _may_roll(self) -> bool:
        stuck = self._deployments.is_paused or self._deployments.is_failed
        return not stuck and not self._is_canarying

    def _replacement(
        self, allocation: Allocation, *, rescheduling: bool = False, lost: bool = False
    ) -> Placement:
        status = allocation.deployment_status
        canary = status is not None and status.canary
        return Placement(
            self._group,
            allocation.name_index,
            previous=allocation,
            canary=canary,
            rescheduling=rescheduling,
            lost=lost,
            downgrade=self._is_canarying and not canary,
            min_version=allocation.job_version,
        )
