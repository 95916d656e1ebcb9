"""A deployment: one version of a job that replaces another, judged by its allocations' health."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from orchgit.model.base import Model


class DeploymentStatus(StrEnum):
    INITIALIZING = "initializing"
    RUNNING = "running"
    PAUSED = "paused"
    PENDING = "pending"
    BLOCKED = "blocked"
    UNBLOCKING = "unblocking"
    FAILED = "failed"
    SUCCESSFUL = "successful"
    CANCELLED = "cancelled"


ACTIVE_DEPLOYMENT_STATUSES = frozenset(
    (
        DeploymentStatus.INITIALIZING,
        DeploymentStatus.RUNNING,
        DeploymentStatus.PAUSED,
        DeploymentStatus.PENDING,
        DeploymentStatus.BLOCKED,
        DeploymentStatus.UNBLOCKING,
    )
)


class DeploymentState(Model):
    """The progress of one group in a deployment."""

    auto_revert: bool = False
    auto_promote: bool = False
    promoted: bool = False
    placed_canaries: list[str] | None = None
    desired_canaries: int = 0
    desired_total: int = 0
    placed_allocs: int = 0
    healthy_allocs: int = 0
    unhealthy_allocs: int = 0
    progress_deadline_ns: int = 0
    require_progress_by: datetime | None = None


class Deployment(Model):
    id: str = ""
    namespace: str = "default"
    job_id: str = ""
    job_version: int = 0
    job_modify_index: int = 0
    job_spec_modify_index: int = 0
    job_create_index: int = 0
    is_multiregion: bool = False
    task_groups: dict[str, DeploymentState] = {}
    status: str = DeploymentStatus.RUNNING
    status_description: str = ""
    eval_priority: int = 50
    commit_id: str = ""
    rollout_id: str = ""
    create_time_ns: int = 0
    modify_time_ns: int = 0
    create_index: int = 0
    modify_index: int = 0

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE_DEPLOYMENT_STATUSES


class DeploymentStatusUpdate(Model):
    deployment_id: str = ""
    status: str = ""
    status_description: str = ""
    updated_at: int = 0
