"""The health of one job of a source as it is now, whatever its rollout came to. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from orchgit.model.deployment import ACTIVE_DEPLOYMENT_STATUSES, DeploymentStatus
from orchgit.model.job import JobStatus, JobType
from orchgit.model.source_health import HealthStatus
from orchgit.state.tables.source_jobs import SourceJob


@dataclass(frozen=True, slots=True)
class JobNow:
    """A job and what its row does not tell.

    `wanted` is how many allocations the job asks for. `failed` are those of the current version
    that failed and were not replaced, `restarting` those of the starting ones whose tasks ended and
    wait to be started again. `in_rollout`: its rollout has not ended for it. `unplaced` is what its
    blocked evaluation waits for, or '' where that was not read.
    """

    job: SourceJob
    wanted: int = 0
    failed: int = 0
    restarting: int = 0
    in_rollout: bool = False
    unplaced: str = ""


@dataclass(frozen=True, slots=True)
class JobHealth:
    """`status` is healthy, progressing or degraded; `text` says why in a few words."""

    status: HealthStatus
    text: str = ""


def judge_job_now(now: JobNow) -> JobHealth:
    """Returns whether the job does its work.

    A job whose rollout goes on is progressing, not degraded: the rollout's deadline decides.
    """
    judged = _judge(now)
    if judged.status is HealthStatus.DEGRADED and now.in_rollout:
        return JobHealth(HealthStatus.PROGRESSING, judged.text)
    return judged


def _judge(now: JobNow) -> JobHealth:
    job = now.job
    if job.is_parent:
        return JobHealth(HealthStatus.HEALTHY)
    if job.deployment_status == DeploymentStatus.FAILED:
        return JobHealth(HealthStatus.DEGRADED, f"its deployment failed, {_counts(now)}")
    if job.deployment_status in ACTIVE_DEPLOYMENT_STATUSES:
        return JobHealth(HealthStatus.PROGRESSING, f"is being deployed, {_counts(now)}")
    if (
        job.type in (JobType.BATCH, JobType.SYSBATCH)
        and now.failed
        and job.status == JobStatus.DEAD
    ):
        return JobHealth(HealthStatus.DEGRADED, f"{now.failed} failed")
    if job.type != JobType.SERVICE:
        return _judge_uncounted(now)
    if job.running >= now.wanted:
        return JobHealth(HealthStatus.HEALTHY)
    is_starting = not now.restarting and job.running + job.starting >= now.wanted
    status = HealthStatus.PROGRESSING if is_starting else HealthStatus.DEGRADED
    return JobHealth(status, _counts(now))


def _judge_uncounted(now: JobNow) -> JobHealth:
    """Judges work whose number of allocations follows from the nodes, or goes down as it ends. What
    failed of a batch job is tried again while the job lives."""
    job = now.job
    does_not_end = job.type == JobType.SYSTEM
    if job.queued or job.unknown or (does_not_end and (now.failed or now.restarting)):
        return JobHealth(HealthStatus.DEGRADED, _counts(now))
    if job.starting or now.failed:
        return JobHealth(HealthStatus.PROGRESSING, _counts(now))
    return JobHealth(HealthStatus.HEALTHY)


def _counts(now: JobNow) -> str:
    job = now.job
    of_wanted = f"/{now.wanted}" if job.type == JobType.SERVICE else ""
    parts = [f"{job.running}{of_wanted} running"]
    others = (
        (job.starting - now.restarting, "starting"),
        (now.restarting, "restarting"),
        (now.failed, "failed"),
        (job.unknown, "on disconnected nodes"),
    )
    parts += [f"{count} {word}" for count, word in others if count]
    if job.queued:
        parts.append(now.unplaced or f"{job.queued} not placed")
    return ", ".join(parts)
