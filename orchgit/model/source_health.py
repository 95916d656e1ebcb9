"""The health of a source at one moment: derived from the state and the leader's memory, never
stored."""

from __future__ import annotations

from enum import StrEnum

from msgspec import field

from orchgit.model.base import Model


class HealthStatus(StrEnum):
    """The worst that is to be said of a source, from bad to good."""

    DEGRADED = "degraded"
    """Some job of the source does not do its work now."""
    UNREACHABLE = "unreachable"
    """The leader cannot learn which commit the remote has."""
    HELD = "held"
    """The cluster keeps from running what the remote's commit says."""
    DRIFTED = "drifted"
    """Some job is registered otherwise than the applied commit says."""
    PAUSED = "paused"
    PENDING = "pending"
    """There is no commit yet, or one waits for a person or a window."""
    PROGRESSING = "progressing"
    HEALTHY = "healthy"


class HealthReason(Model):
    """Why a source has a status, for a person to act on. `job_id` is empty where the reason
    concerns the whole source."""

    status: str
    text: str
    namespace: str = ""
    job_id: str = ""


class JobCounts(Model):
    """How many jobs a source has. The first three add up to `total`; held versions and drifted jobs
    are counted beside them."""

    total: int = 0
    healthy: int = 0
    progressing: int = 0
    degraded: int = 0
    held: int = 0
    drifted: int = 0


class SourceCheck(Model):
    """How following the source's remote goes.

    What the leader keeps in its memory is not `known` on another server, nor before the leader's
    first round: `last_check_ns` and `last_success_ns` are the recorded ones then, which may be
    older. A success is a round that learned the remote's commit and applied what was due.
    """

    known: bool = False
    under_way: bool = False
    last_check_ns: int = 0
    last_success_ns: int = 0
    next_try_ns: int = 0
    failures: int = 0
    """Rounds that failed since the last success; each makes the time to the next one longer."""
    error: str = ""
    error_since_ns: int = 0
    remote_commit: str = ""
    """The commit that the remote's ref had at the last check; '' if it is not known."""


class SourceHealth(Model):
    """`reasons` are the worst first. `difference` says why the applied commit is not the remote's;
    '' if it is, or if the remote's is not known."""

    status: str = HealthStatus.HEALTHY
    reasons: list[HealthReason] = []
    jobs: JobCounts = field(default_factory=JobCounts)
    applied_commit: str = ""
    remote_commit: str = ""
    difference: str = ""
    since_ns: int = 0
    """When the source got this status; 0: not known."""


class SourceHealthChange(Model):
    """The health of a source as it was last recorded, which is when it became another.

    `before` is the status that it had until then, '' at first. `reasons` are the first of those
    that it had at that moment. `namespace` is the source's.
    """

    source: str
    namespace: str = "default"
    status: str = HealthStatus.HEALTHY
    before: str = ""
    reasons: list[HealthReason] = []
    since_ns: int = 0
    create_index: int = 0
    modify_index: int = 0


class SyncResult(Model):
    """What a round of a source came to.

    `result` is applied, waiting (a rollout was made and waits), unchanged, held, refused, paused,
    error, or checking (the round is not over).
    """

    result: str
    text: str = ""
    commit_id: str = ""
    rollout_id: str = ""
