"""The deployment of a system job: canaries are a share of its nodes, updates go node by node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from orchgit.ids import IdSource
from orchgit.model.allocation import Allocation
from orchgit.model.deployment import (
    Deployment,
    DeploymentState,
    DeploymentStatus,
    DeploymentStatusUpdate,
)
from orchgit.model.evaluation import Evaluation
from orchgit.model.group import TaskGroup
from orchgit.model.job import Job, JobType
from orchgit.model.plan import Plan
from orchgit.scheduler.reconcile.deployments import (
    CANCELLED_NEWER,
    CANCELLED_STOPPED,
    SUCCESSFUL,
    description_of,
    fresh_state,
    has_deployments,
    is_group_complete,
    new_deployment,
)
from orchgit.scheduler.reconcile.system import GroupDiff


@dataclass(slots=True)
class UpdateAllowance:
    """How far one group may go now: of `limit` updates the first `canaries` are canaries."""

    limit: int
    canaries: int = 0
    desired_canaries: int = 0
    is_canarying: bool = False


class SystemDeployment:
    """Found, made and changed over the groups of one evaluation, then written into the plan."""

    def __init__(
        self,
        job: Job | None,
        latest: Deployment | None,
        evaluation: Evaluation,
        ids: IdSource,
        now_ns: int,
    ) -> None:
        self._job = job
        self._latest = latest
        self._evaluation = evaluation
        self._ids = ids
        self._now_ns = now_ns
        self._current: Deployment | None = None
        self._is_new = False
        self._updates: list[DeploymentStatusUpdate] = []
        self._busy = False
        self.allowed = True
        """False: some agent is too old to take part, updates go without a deployment."""
        if latest is not None:
            self._adopt(latest)

    def _adopt(self, latest: Deployment) -> None:
        job = self._job
        if job is None or job.stop:
            if latest.is_active:
                self._set_status(latest, DeploymentStatus.CANCELLED, CANCELLED_STOPPED)
        elif (latest.job_version, latest.job_create_index) != (job.version, job.create_index):
            if latest.is_active:
                self._set_status(latest, DeploymentStatus.CANCELLED, CANCELLED_NEWER)
        else:
            groups = {name: replace(state) for name, state in latest.task_groups.items()}
            self._current = replace(latest, task_groups=groups)

    def _set_status(self, deployment: Deployment, status: str, description: str) -> None:
        self._updates.append(
            DeploymentStatusUpdate(
                deployment_id=deployment.id,
                status=status,
                status_description=description,
                updated_at=self._now_ns,
            )
        )

    @property
    def latest_id(self) -> str:
        deployment = self._current or self._latest
        return deployment.id if deployment is not None else ""

    @property
    def active_id(self) -> str:
        """What new allocations are part of; empty: no deployment."""
        current = self._current
        return current.id if current is not None and current.is_active else ""

    def begin(
        self,
        group: TaskGroup,
        diff: GroupDiff,
        allocations: Sequence[Allocation],
        total: int,
        is_busy: bool,
    ) -> UpdateAllowance:
        """Look at one group: make or join the deployment, and say how much may be updated.

        `is_busy`: something is to be placed or replaced, so that the deployment goes on."""
        self._busy = self._busy or is_busy
        if not has_deployments(group.update) or self._job is None:
            return UpdateAllowance(len(diff.update))
        if self._job.type != JobType.SYSTEM or not self.allowed:
            return UpdateAllowance(len(diff.update))
        state = self._state(group, diff, allocations, total)
        assert group.update is not None, "has_deployments says so"
        unhealthy_yet = sum(
            allocation.deployment_id == self.active_id
            and not allocation.is_terminal
            and (
                allocation.deployment_status is None or allocation.deployment_status.healthy is None
            )
            for allocation in allocations
            if self.active_id
        )
        limit = max(group.update.max_parallel - unhealthy_yet, 0)
        if state is None or not diff.update or state.promoted or not group.update.canary:
            return UpdateAllowance(limit)
        wanted = state.desired_canaries or min(
            math.ceil(total * group.update.canary / 100), group.update.max_parallel
        )
        state.desired_canaries = wanted
        missing = max(wanted - len(state.placed_canaries or ()), 0)
        return UpdateAllowance(missing, missing, wanted, is_canarying=True)

    def _state(
        self, group: TaskGroup, diff: GroupDiff, allocations: Sequence[Allocation], total: int
    ) -> DeploymentState | None:
        """The group's part of the deployment; None when it takes no part."""
        if self._current is not None and group.name in self._current.task_groups:
            return self._current.task_groups[group.name]
        assert self._job is not None, "begin looks at it"
        ran_before = any(
            a.task_group == group.name and a.job_version == self._job.version for a in allocations
        )
        if total == 0 or (ran_before and not diff.update and not diff.in_place):
            return None
        if self._current is None:
            self._current = new_deployment(
                self._job, self._evaluation, self._ids.new(), self._now_ns
            )
            self._is_new = True
        state = fresh_state(group.update)
        self._current.task_groups[group.name] = state
        return state

    def placed_canary(self, group: str, alloc_id: str) -> None:
        if self._current is not None:
            state = self._current.task_groups[group]
            state.placed_canaries = [*(state.placed_canaries or ()), alloc_id]

    def set_total(self, group: str, total: int) -> None:
        if self._current is not None and group in self._current.task_groups:
            self._current.task_groups[group].desired_total = total

    def write(self, plan: Plan) -> None:
        """Put the deployment and its changes of status into the plan."""
        current = self._current
        if current is not None:
            if self._is_new:
                self._set_status(current, current.status, current.status_description)
            current.status_description = description_of(current)
            plan.deployment = current
            complete = all(is_group_complete(state) for state in current.task_groups.values())
            if not self._is_new and not self._busy and complete and current.is_active:
                self._set_status(current, DeploymentStatus.SUCCESSFUL, SUCCESSFUL)
        plan.deployment_updates = self._updates
