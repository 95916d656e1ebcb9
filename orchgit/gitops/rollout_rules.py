"""How a commit is doing, judged from evaluations, deployments and allocations. Pure.

A job's verdict first, then the rollout's: it ends only when every job has settled, and it is
healthy only if every job is. Nothing here waits: the caller judges again when something changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.deployment import Deployment, DeploymentStatus
from orchgit.model.evaluation import EvalStatus, Evaluation
from orchgit.model.job import Job, JobType
from orchgit.model.rollout import JobAction, RolloutJob, RolloutStatus


class JobProgress(StrEnum):
    APPLIED = "applied"
    PROGRESSING = "progressing"
    HEALTHY = "healthy"
    FAILED = "failed"
    REVERTED = "reverted"
    SUPERSEDED = "superseded"


SETTLED = frozenset(
    (JobProgress.HEALTHY, JobProgress.FAILED, JobProgress.REVERTED, JobProgress.SUPERSEDED)
)


@dataclass(frozen=True, slots=True)
class JobView:
    """What is known of one job of a rollout. `evaluations` are those of the job, any order;
    `deployment` is the one of the version that the rollout registered."""

    job: Job | None
    evaluations: Sequence[Evaluation]
    deployment: Deployment | None
    allocations: Sequence[Allocation]


@dataclass(frozen=True, slots=True)
class Verdict:
    status: JobProgress
    description: str = ""
    deployment_id: str = ""


def judge_job(
    change: RolloutJob, view: JobView, since_ns: int, now_ns: int, patience_ns: int
) -> Verdict:
    """`patience_ns`: how long work without a deployment may wait for a place before it failed."""
    if change.action == JobAction.DELETE:
        return _judge_deletion(view)
    job = view.job
    if job is None or (job.stop and job.version == change.job_version):
        return Verdict(JobProgress.SUPERSEDED, "the job was stopped meanwhile")
    if view.deployment is not None and not view.deployment.is_active:
        return _judge_ended(view.deployment, job, change)
    if job.version != change.job_version:
        return Verdict(JobProgress.SUPERSEDED, f"version {job.version} replaced it")
    if job.is_periodic or job.is_parameterized:
        return Verdict(JobProgress.HEALTHY, "waits for its launches")
    if view.deployment is not None:
        return _judge_active(view.deployment, view)
    late = now_ns - since_ns > patience_ns
    return _judge_without_deployment(change, job, view, late)


def _judge_deletion(view: JobView) -> Verdict:
    left = [alloc for alloc in view.allocations if not _is_over(alloc)]
    if view.job is not None and not view.job.stop:
        return Verdict(JobProgress.SUPERSEDED, "the job was registered again")
    if left:
        return Verdict(JobProgress.PROGRESSING, f"{len(left)} still to stop")
    return Verdict(JobProgress.HEALTHY, "stopped")


def _is_over(alloc: Allocation) -> bool:
    """Gone from its node, as far as its agent can still tell."""
    if alloc.is_client_terminal:
        return True
    return alloc.is_server_terminal and alloc.client_status == ClientStatus.UNKNOWN


def _judge_ended(deployment: Deployment, job: Job, change: RolloutJob) -> Verdict:
    description = deployment.status_description
    if deployment.status == DeploymentStatus.SUCCESSFUL:
        healthy = sum(state.healthy_allocs for state in deployment.task_groups.values())
        return Verdict(JobProgress.HEALTHY, f"{healthy} healthy", deployment.id)
    if deployment.status == DeploymentStatus.CANCELLED:
        return Verdict(JobProgress.SUPERSEDED, description, deployment.id)
    rolled_back = job.version != change.job_version
    status = JobProgress.REVERTED if rolled_back else JobProgress.FAILED
    return Verdict(status, description, deployment.id)


def _judge_active(deployment: Deployment, view: JobView) -> Verdict:
    states = deployment.task_groups.values()
    healthy = sum(state.healthy_allocs for state in states)
    total = sum(max(state.desired_total, state.desired_canaries) for state in states)
    notes = [f"{healthy}/{total} healthy"]
    unhealthy = sum(state.unhealthy_allocs for state in states)
    if unhealthy:
        notes.append(f"{unhealthy} unhealthy")
    if any(s.desired_canaries and not s.promoted and not s.auto_promote for s in states):
        notes.append("canaries wait for promotion")
    if deployment.status == DeploymentStatus.PAUSED:
        notes.append("paused")
    waiting = _unplaced(view.evaluations)
    if waiting:
        notes.append(waiting)
    return Verdict(JobProgress.PROGRESSING, ", ".join(notes), deployment.id)


def _judge_without_deployment(change: RolloutJob, job: Job, view: JobView, late: bool) -> Verdict:
    evaluation = next((e for e in view.evaluations if e.id == change.eval_id), None)
    if evaluation is None or not evaluation.is_terminal:
        return Verdict(JobProgress.PROGRESSING, "waits for the scheduler")
    if evaluation.status == EvalStatus.FAILED and not _followed_up(view.evaluations):
        return Verdict(JobProgress.FAILED, evaluation.status_description or "evaluation failed")
    unplaced = _unplaced(view.evaluations)
    if unplaced:
        return Verdict(JobProgress.FAILED if late else JobProgress.PROGRESSING, unplaced)
    return _judge_allocations(change, job, view, late)


def _followed_up(evaluations: Sequence[Evaluation]) -> bool:
    return any(not e.is_terminal for e in evaluations)


def _unplaced(evaluations: Sequence[Evaluation]) -> str:
    """What the blocked evaluation of the job waits for, in words."""
    blocked = [e for e in evaluations if e.status == EvalStatus.BLOCKED]
    if not blocked:
        return ""
    newest = max(blocked, key=lambda e: (e.create_index, e.modify_index))
    count = sum((newest.queued_allocations or {}).values())
    return f"{count or 'some'} not placed{_why(newest)}"


def _why(evaluation: Evaluation) -> str:
    reasons: dict[str, None] = {}
    for metric in (evaluation.failed_tg_allocs or {}).values():
        if not metric.nodes_evaluated:
            reasons["no node is eligible"] = None
        for table in (metric.constraint_filtered, metric.dimension_exhausted):
            reasons.update(dict.fromkeys(table or ()))
    return f" ({', '.join(list(reasons)[:3])})" if reasons else ""


def _judge_allocations(change: RolloutJob, job: Job, view: JobView, late: bool) -> Verdict:
    """Batch, system and service work without a deployment: running, or done, is healthy."""
    wanted = _wanted(job)
    current = [a for a in view.allocations if a.job_version == change.job_version]
    live = [a for a in current if not a.is_server_terminal and not a.next_allocation]
    failed = [a for a in live if a.client_status in (ClientStatus.FAILED, ClientStatus.LOST)]
    good = [a for a in live if a.client_status in (ClientStatus.RUNNING, ClientStatus.COMPLETE)]
    if failed and not any(a.followup_eval_id for a in failed):
        pending = _followed_up(view.evaluations)
        if not pending:
            return Verdict(JobProgress.FAILED, f"{len(failed)} failed")
    if wanted is None:
        wanted = len(live)
    if len(good) >= wanted and not failed:
        return Verdict(JobProgress.HEALTHY, _placed(good))
    description = f"{len(good)}/{wanted} running"
    if failed:
        description += f", {len(failed)} failed"
    return Verdict(JobProgress.FAILED if late else JobProgress.PROGRESSING, description)


def _wanted(job: Job) -> int | None:
    """How many allocations the job asks for; None for system jobs: as many as nodes allow."""
    if job.type in (JobType.SYSTEM, JobType.SYSBATCH):
        return None
    return sum(group.count for group in job.task_groups)


def _placed(good: Sequence[Allocation]) -> str:
    done = sum(1 for a in good if a.client_status == ClientStatus.COMPLETE)
    running = len(good) - done
    parts = [f"{running} running"] if running else []
    parts += [f"{done} complete"] if done else []
    return ", ".join(parts) or "nothing to run"


def judge_rollout(jobs: Iterable[RolloutJob]) -> tuple[RolloutStatus, str]:
    """The rollout's status from its jobs', with one line that says why."""
    by_status: dict[str, list[str]] = {}
    for job in jobs:
        by_status.setdefault(job.status, []).append(job.job_id)
    waiting = [j for s, ids in by_status.items() if s not in SETTLED for j in ids]
    if waiting:
        done = sum(len(ids) for status, ids in by_status.items() if status in SETTLED)
        return RolloutStatus.PROGRESSING, f"{done} of {done + len(waiting)} jobs settled"
    bad = by_status.get(JobProgress.FAILED, []) + by_status.get(JobProgress.REVERTED, [])
    if bad:
        back = by_status.get(JobProgress.REVERTED)
        suffix = f"; back on the stable version: {_names(back)}" if back else ""
        return RolloutStatus.FAILED, f"failed: {_names(bad)}{suffix}"
    superseded = by_status.get(JobProgress.SUPERSEDED)
    if superseded:
        return (
            RolloutStatus.DEGRADED,
            f"changed again before they were healthy: {_names(superseded)}",
        )
    return RolloutStatus.HEALTHY, "every job is healthy"


def _names(job_ids: Sequence[str]) -> str:
    more = f" and {len(job_ids) - 5} more" if len(job_ids) > 5 else ""
    return ", ".join(sorted(job_ids)[:5]) + more
