"""A rollout: applying one commit of one source, and what became of it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import field

from orchgit.model.base import Model
from orchgit.model.evaluation import DesiredUpdates
from orchgit.model.gates import RolloutGates


class RolloutStatus(StrEnum):
    PENDING = "pending"
    AWAITING_APPROVAL = "awaiting_approval"
    APPLIED = "applied"
    PROGRESSING = "progressing"
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    SUPERSEDED = "superseded"
    REVERTED = "reverted"
    FAILED = "failed"
    REJECTED = "rejected"


TERMINAL_ROLLOUT_STATUSES = frozenset(
    (
        RolloutStatus.HEALTHY,
        RolloutStatus.DEGRADED,
        RolloutStatus.SUPERSEDED,
        RolloutStatus.REVERTED,
        RolloutStatus.FAILED,
        RolloutStatus.REJECTED,
    )
)
WAITING_ROLLOUT_STATUSES = frozenset((RolloutStatus.PENDING, RolloutStatus.AWAITING_APPROVAL))
OPEN_ROLLOUT_STATUSES = frozenset(RolloutStatus) - TERMINAL_ROLLOUT_STATUSES
ROLLOUTS_KEPT = 200
"""How many rollouts of a source the garbage collector leaves, and of how many every server keeps
the commits."""


class Commit(Model):
    id: str = ""
    author: str = ""
    email: str = ""
    subject: str = ""
    time_ns: int = 0


class JobAction(StrEnum):
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    UNCHANGED = "unchanged"


class ChangeCause(StrEnum):
    """Why a commit, or a person, changes a job."""

    COMMIT = "commit"
    """The commit changes what the job's file means, or removes it."""
    DRIFT = "drift"
    """The job was changed by hand: it is not what the applied commit wants."""
    RETRY = "retry"
    """A person asked to run it again, or to apply its held version."""
    RELEASE = "release"
    """The job had no source, or had been released by one, and the source takes it over."""


class JobWait(Model):
    """What a job of a later stage waits for: another job, until a `WaitCondition` of it holds.

    `job_id` `*` stands for every job of the rollout's earlier stages.
    """

    namespace: str = "default"
    job_id: str = ""
    condition: str = "healthy"


class RolloutJob(Model):
    """What a commit does to one job, and the result.

    `status` is a `JobProgress` of `gitops/rollouts/health.py`.
    """

    namespace: str = "default"
    job_id: str = ""
    action: str = JobAction.CREATE
    file: str = ""
    line: int = 0
    blob_id: str = ""
    job_type: str = ""
    job_version: int = 0
    eval_id: str = ""
    deployment_id: str = ""
    status: str = "applied"
    description: str = ""
    desired_updates: dict[str, DesiredUpdates] | None = None
    cause: str = ""
    """Why the job changes: commit, drift, retry or release; empty in records from before."""
    content_id: str = ""
    """Identifies the file and all that it was read with; empty for a deletion."""
    stage: int = 0
    """The first stage, 0, is applied with the commit; a later one when what it waits for is there.
    """
    waits_for: list[JobWait] = []
    must_complete: bool = False
    """Whether the job is healthy only when all of its work is done, since others wait for that."""
    applied_time_ns: int = 0
    """When the job's stage was applied; 0: with the commit, or not yet."""


class Rollout(Model):
    id: str = ""
    source: str = ""
    commit: Commit = field(default_factory=Commit)
    previous_commit: str = ""
    reverts: str = ""
    """The id of the rollout that this one reverts, if it is a revert."""
    trigger: str = ""
    """push, webhook, poll, watch, api, retry, drift or revert."""
    pusher: str = ""
    """Who pushed, or asked for a sync, a retry or to go back; '' where nobody did."""
    ref: str = ""
    """Full name of the ref at which the commit was found, such as that of a tag; '' if unknown."""
    status: str = RolloutStatus.PENDING
    status_description: str = ""
    jobs: list[RolloutJob] = []
    problems: list[str] = []
    """file:line:column: message, for a commit that was refused."""
    plan_hash: str = ""
    create_time_ns: int = 0
    applied_time_ns: int = 0
    finished_time_ns: int = 0
    create_index: int = 0
    modify_index: int = 0
    reason: str = ""
    """Why a person went back to an earlier commit, in that person's words."""
    gates: RolloutGates | None = None
    """What the gates of its source decided; None for a source without gates."""

    @property
    def was_applied(self) -> bool:
        """Whether the commit was applied; a refused one never was."""
        return self.applied_time_ns != 0

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL_ROLLOUT_STATUSES

    @property
    def is_waiting(self) -> bool:
        """Whether the commit is recorded and not applied yet: a gate is closed."""
        return self.status in WAITING_ROLLOUT_STATUSES and not self.was_applied
