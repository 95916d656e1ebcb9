"""The deployment of a service job: which one counts, what a group adds, when it is complete."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.ids import IdSource
from orchgit.model.deployment import (
    Deployment,
    DeploymentState,
    DeploymentStatus,
    DeploymentStatusUpdate,
)
from orchgit.model.evaluation import Evaluation
from orchgit.model.group import TaskGroup, UpdateStrategy
from orchgit.model.job import Job

RUNNING = "Deployment is running"
NEEDS_PROMOTION = "Deployment is running but requires manual promotion"
AUTO_PROMOTION = "Deployment is running pending automatic promotion"
SUCCESSFUL = "Deployment completed successfully"
PENDING_PEER = "Deployment is pending, waiting for peer region"
BLOCKED = "Deployment is complete but waiting for peer region"
CANCELLED_STOPPED = "Cancelled because job is stopped"
CANCELLED_NEWER = "Cancelled due to newer version of job"


def has_deployments(update: UpdateStrategy | None) -> bool:
    return update is not None and update.max_parallel > 0


class DeploymentPlan:
    """The deployment as this evaluation finds, makes and changes it."""

    def __init__(self, job: Job | None, latest: Deployment | None, now_ns: int) -> None:
        self.current: Deployment | None = None
        self.old: Deployment | None = None
        """Of an earlier version of the job (or of a stopped job)."""
        self.created: Deployment | None = None
        self.updates: list[DeploymentStatusUpdate] = []
        self._now_ns = now_ns
        if latest is not None:
            self._adopt(job, latest)

    def _adopt(self, job: Job | None, latest: Deployment) -> None:
        if job is None or job.stop:
            if latest.is_active:
                self.update(latest, DeploymentStatus.CANCELLED, CANCELLED_STOPPED)
            self.old = latest
        elif latest.job_create_index != job.create_index or latest.job_version != job.version:
            if latest.is_active:
                self.update(latest, DeploymentStatus.CANCELLED, CANCELLED_NEWER)
            self.old = latest
        elif latest.status == DeploymentStatus.SUCCESSFUL:
            self.old = latest
        else:
            self.current = latest

    @property
    def is_paused(self) -> bool:
        return self.current is not None and self.current.status in (
            DeploymentStatus.PAUSED,
            DeploymentStatus.PENDING,
            DeploymentStatus.INITIALIZING,
        )

    @property
    def is_failed(self) -> bool:
        return self.current is not None and self.current.status == DeploymentStatus.FAILED

    @property
    def active_id(self) -> str:
        """What new allocations are part of; empty: no deployment."""
        deployment = self.created or self.current
        return deployment.id if deployment is not None and deployment.is_active else ""

    def update(self, deployment: Deployment, status: str, description: str) -> None:
        self.updates.append(
            DeploymentStatusUpdate(
                deployment_id=deployment.id,
                status=status,
                status_description=description,
                updated_at=self._now_ns,
            )
        )

    def group_state(self, group: TaskGroup) -> tuple[DeploymentState, bool]:
        """(the group's part, whether the current deployment has it already); a copy."""
        if self.current is not None and group.name in self.current.task_groups:
            return replace(self.current.task_groups[group.name]), True
        return fresh_state(group.update), False

    def add_group(
        self, group: str, state: DeploymentState, job: Job, evaluation: Evaluation, ids: IdSource
    ) -> None:
        """The group takes part in a deployment from now on: the current one or a new one."""
        if self.created is None:
            base = self.current or new_deployment(job, evaluation, ids.new(), self._now_ns)
            self.created = replace(base, task_groups=dict(base.task_groups))
        self.created.task_groups[group] = state

    def leave_initializing(self) -> None:
        """What it is made of is known now: it goes on when its peer region does."""
        if self.current is not None and self.current.status == DeploymentStatus.INITIALIZING:
            self.update(self.current, DeploymentStatus.PENDING, PENDING_PEER)
            self.created = self.created or self.current

    def describe_created(self) -> None:
        if self.created is not None:
            self.created.status_description = description_of(self.created)

    def complete(self) -> None:
        """All groups are done: the current deployment has succeeded."""
        if self.current is None or self.created is not None:
            return
        if self.current.is_multiregion:
            if self.current.status not in (DeploymentStatus.BLOCKED, DeploymentStatus.UNBLOCKING):
                self.update(self.current, DeploymentStatus.BLOCKED, BLOCKED)
        elif self.current.is_active:
            self.update(self.current, DeploymentStatus.SUCCESSFUL, SUCCESSFUL)


def fresh_state(update: UpdateStrategy | None) -> DeploymentState:
    state = DeploymentState()
    if update is not None and update.max_parallel > 0:
        state.auto_revert = update.auto_revert
        state.auto_promote = update.auto_promote
        state.progress_deadline_ns = update.progress_deadline_ns
    return state


def new_deployment(job: Job, evaluation: Evaluation, deployment_id: str, now_ns: int) -> Deployment:
    origin = job.origin
    return Deployment(
        id=deployment_id,
        namespace=job.namespace,
        job_id=job.id,
        job_version=job.version,
        job_modify_index=job.modify_index,
        job_spec_modify_index=job.job_modify_index,
        job_create_index=job.create_index,
        is_multiregion=bool((job.multiregion or {}).get("Regions")),
        status=DeploymentStatus.RUNNING,
        status_description=RUNNING,
        eval_priority=evaluation.priority,
        commit_id=origin.commit_id if origin is not None else "",
        rollout_id=origin.rollout_id if origin is not None else "",
        create_time_ns=now_ns,
        modify_time_ns=now_ns,
    )


def description_of(deployment: Deployment) -> str:
    canaries = [
        state
        for state in deployment.task_groups.values()
        if state.desired_canaries > 0 and not state.promoted
    ]
    if not canaries:
        return deployment.status_description
    automatic = all(state.auto_promote for state in canaries)
    return AUTO_PROMOTION if automatic else NEEDS_PROMOTION


def is_group_complete(state: DeploymentState | None) -> bool:
    """Whether the group's wanted number is healthy and its canaries are promoted."""
    if state is None:
        return True
    enough = state.healthy_allocs >= max(state.desired_total, state.desired_canaries)
    return enough and (state.desired_canaries == 0 or state.promoted)
