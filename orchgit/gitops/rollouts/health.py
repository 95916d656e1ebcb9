"""The health of a rollout, judged from its jobs' evaluations, deployments and allocations. Pure.

`judge_job` judges each job, `judge_rollout` the rollout from its jobs: it ends when every job has
ended, and is healthy if every job is. The caller judges again when the state changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from msgspec.structs import replace

from orchgit.durations import to_text
from orchgit.gitops.rollouts.placement_reasons import placement_reasons
from orchgit.model.allocation import Allocation, ClientStatus
from orchgit.model.base import NS_PER_S, ns_of_datetime
from orchgit.model.deployment import Deployment, DeploymentState, DeploymentStatus
from orchgit.model.evaluation import EvalStatus, Evaluation
from orchgit.model.job import Job, JobStatus, JobType
from orchgit.model.rollout import JobAction, Rollout, RolloutJob, RolloutStatus


class JobProgress(StrEnum):
    """The status of a job in a rollout."""

    WAITING = "waiting"
    """The job's stage is not applied yet."""
    APPLIED = "applied"
    PROGRESSING = "progressing"
    HEALTHY = "healthy"
    FAILED = "failed"
    REVERTED = "reverted"
    SUPERSEDED = "superseded"
    """A newer commit of the source changed the job before it was healthy."""
    OVERRIDDEN = "overridden"
    """The job was changed or stopped by hand before it was healthy."""
    SKIPPED = "skipped"
    """The job's stage is not applied, since an earlier one failed. The next commit plans it."""


ENDED = frozenset(
    (
        JobProgress.HEALTHY,
        JobProgress.FAILED,
        JobProgress.REVERTED,
        JobProgress.SUPERSEDED,
        JobProgress.OVERRIDDEN,
        JobProgress.SKIPPED,
    )
)


SCHEDULING = "scheduling..."
"""The description of a job whose evaluation is not done."""


@dataclass(frozen=True, slots=True)
class JobView:
    """What the state says of one job of a rollout. `job` is its current version; `deployment` is
    that of the version that the rollout registered. `replaced_by` is the newest later commit of the
    source that changed the job, or ''."""

    job: Job | None
    evaluations: Sequence[Evaluation]
    deployment: Deployment | None
    allocations: Sequence[Allocation]
    replaced_by: str = ""
    completed: int = 0
    """How many allocations of the registered job ever completed, those that were collected since
    among them. Only read for a job that has to be complete already."""


@dataclass(frozen=True, slots=True)
class JobVerdict:
    """A job's status in the rollout, with one line that says why."""

    status: JobProgress
    description: str = ""
    deployment_id: str = ""


@dataclass(frozen=True, slots=True)
class Deadline:
    """How long a job may make no progress before it has failed.

    `limit_ns` is the source's setting, 0 if it has none. Without one `patience_ns` holds, or the
    deployment's own deadline if that is longer.
    """

    patience_ns: int
    limit_ns: int = 0

    def is_past(self, since_ns: int, now_ns: int) -> bool:
        """Returns whether work without a deployment, registered at `since_ns`, is late."""
        return now_ns - since_ns > (self.limit_ns or self.patience_ns)

    def is_past_for(self, deployment: Deployment, since_ns: int, now_ns: int) -> bool:
        """Returns whether a deployment is late.

        A deployment fails by itself when its allocations make no progress, but it has no deadline
        before it has placed any. It gets the longest progress deadline of its groups and a minute
        more, so that its own verdict comes first.
        """
        states = deployment.task_groups.values()
        progress_ns = max((since_ns, *(_last_progress_ns(state) for state in states)))
        longest_ns = max((self.patience_ns, *(state.progress_deadline_ns for state in states)))
        return now_ns - progress_ns > (self.limit_ns or longest_ns + _GRACE_NS)


_GRACE_NS = 60 * NS_PER_S


def _last_progress_ns(state: DeploymentState) -> int:
    """Returns when an allocation was last placed or became healthy; 0: never."""
    if state.require_progress_by is None:
        return 0
    return ns_of_datetime(state.require_progress_by) - state.progress_deadline_ns


def judge_job(
    change: RolloutJob, view: JobView, since_ns: int, now_ns: int, deadline: Deadline
) -> JobVerdict:
    """Judges one job of a rollout whose stage was applied at `since_ns`.

    With the action `unchanged` the job is judged as it runs now: nothing was scheduled for it.
    """
    if change.action == JobAction.DELETE:
        return _judge_deletion(view, deadline.is_past(since_ns, now_ns))
    job = view.job
    if job is None or (job.stop and job.version == change.job_version):
        return _judge_changed(view, "stopped by hand")
    is_unchanged = change.action == JobAction.UNCHANGED
    if view.deployment is not None and not view.deployment.is_active and not is_unchanged:
        return _judge_ended(view.deployment, view, change)
    if job.version != change.job_version:
        by_hand = "stopped by hand" if job.stop else f"changed by hand to version {job.version}"
        return _judge_changed(view, by_hand)
    if job.is_periodic or job.is_parameterized:
        return JobVerdict(JobProgress.HEALTHY, "registered; it runs when it is launched")
    if view.deployment is not None and view.deployment.is_active:
        late = deadline.is_past_for(view.deployment, since_ns, now_ns)
        return _judge_active(view.deployment, view, late)
    late = deadline.is_past(since_ns, now_ns)
    return _judge_without_deployment(change, view, late, bool(deadline.limit_ns))


def _judge_changed(view: JobView, by_hand: str, deployment_id: str = "") -> JobVerdict:
    """Judges a job that does not run as the rollout registered it. `by_hand` describes the change
    if no later commit made it."""
    if view.replaced_by:
        description = f"replaced by commit {view.replaced_by[:8]}"
        return JobVerdict(JobProgress.SUPERSEDED, description, deployment_id)
    return JobVerdict(JobProgress.OVERRIDDEN, by_hand, deployment_id)


def _judge_deletion(view: JobView, late: bool) -> JobVerdict:
    # What the server stopped on an agent that cannot report has ended as far as is known.
    left = [
        alloc
        for alloc in view.allocations
        if not alloc.is_client_terminal
        and not (alloc.is_server_terminal and alloc.client_status == ClientStatus.UNKNOWN)
    ]
    if view.job is not None and not view.job.stop:
        return _judge_changed(view, "registered again by hand")
    if left:
        status = JobProgress.FAILED if late else JobProgress.PROGRESSING
        return JobVerdict(status, f"stopping {len(left)} allocation{'s' * (len(left) != 1)}...")
    return JobVerdict(JobProgress.HEALTHY, "stopped")


def _judge_ended(deployment: Deployment, view: JobView, change: RolloutJob) -> JobVerdict:
    description = deployment.status_description
    if deployment.status == DeploymentStatus.SUCCESSFUL:
        healthy = sum(state.healthy_allocs for state in deployment.task_groups.values())
        return JobVerdict(JobProgress.HEALTHY, f"{healthy} healthy", deployment.id)
    if deployment.status == DeploymentStatus.CANCELLED:
        return _judge_changed(view, f"changed by hand: {description}", deployment.id)
    rolled_back = view.job is not None and view.job.version != change.job_version
    status = JobProgress.REVERTED if rolled_back else JobProgress.FAILED
    return JobVerdict(status, description, deployment.id)


def _judge_active(deployment: Deployment, view: JobView, late: bool) -> JobVerdict:
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
    waiting = why_unplaced(view)
    if waiting:
        notes.append(waiting)
    if late and not _waits_for_a_person(deployment):
        return JobVerdict(JobProgress.FAILED, f"no progress: {', '.join(notes)}", deployment.id)
    return JobVerdict(JobProgress.PROGRESSING, ", ".join(notes), deployment.id)


def _waits_for_a_person(deployment: Deployment) -> bool:
    """Returns whether the deployment is paused, or only its promotion is left to do."""
    if deployment.status == DeploymentStatus.PAUSED:
        return True
    open_states = [
        state
        for state in deployment.task_groups.values()
        if state.healthy_allocs < max(state.desired_total, state.desired_canaries)
        or (state.desired_canaries and not state.promoted)
    ]
    return bool(open_states) and all(
        state.desired_canaries
        and not state.promoted
        and not state.auto_promote
        and state.healthy_allocs >= state.desired_canaries
        for state in open_states
    )


def _judge_without_deployment(
    change: RolloutJob, view: JobView, late: bool, is_limited: bool
) -> JobVerdict:
    if change.action == JobAction.UNCHANGED:
        if any(each.status == EvalStatus.PENDING for each in view.evaluations):
            return JobVerdict(JobProgress.PROGRESSING, SCHEDULING)
    else:
        evaluation = next((e for e in view.evaluations if e.id == change.eval_id), None)
        if evaluation is None or not evaluation.is_terminal:
            status = JobProgress.FAILED if late else JobProgress.PROGRESSING
            return JobVerdict(status, SCHEDULING)
        if evaluation.status == EvalStatus.FAILED and not _followed_up(view.evaluations):
            why = evaluation.status_description or "evaluation failed"
            return JobVerdict(JobProgress.FAILED, why)
    unplaced = why_unplaced(view)
    if unplaced:
        return JobVerdict(JobProgress.FAILED if late else JobProgress.PROGRESSING, unplaced)
    return _judge_allocations(change, view, late, is_limited)


def _followed_up(evaluations: Sequence[Evaluation]) -> bool:
    return any(not e.is_terminal for e in evaluations)


def why_unplaced(view: JobView) -> str:
    """Returns what the job's blocked evaluation waits for, or ''."""
    blocked = [e for e in view.evaluations if e.status == EvalStatus.BLOCKED]
    if not blocked:
        return ""
    newest = max(blocked, key=lambda e: (e.create_index, e.modify_index))
    failures = (newest.failed_tg_allocs or {}).values()
    count = sum((newest.queued_allocations or {}).values())
    count = count or sum(1 + metric.coalesced_failures for metric in failures)
    reasons: dict[str, None] = {}
    for name, metric in (newest.failed_tg_allocs or {}).items():
        group = view.job.group(name) if view.job is not None else None
        reasons.update(dict.fromkeys(placement_reasons(metric, group)))
    why = f" ({', '.join(list(reasons)[:3])})" if reasons else ""
    return f"{count or 'some'} not placed{why}"


def _judge_allocations(
    change: RolloutJob, view: JobView, late: bool, is_limited: bool
) -> JobVerdict:
    """Judges work without a deployment: healthy when all of it runs or is complete.

    Work that must complete may run as long as it likes, unless the source limits it.
    """
    assert view.job is not None
    wanted, registered = _wanted(view.job), view.job.create_index
    current = [
        a
        for a in view.allocations
        if a.job_version == change.job_version and a.is_of_registration(registered)
    ]
    live = [a for a in current if not a.is_server_terminal and not a.next_allocation]
    failed = [a for a in live if a.client_status in (ClientStatus.FAILED, ClientStatus.LOST)]
    good = [a for a in live if a.client_status in (ClientStatus.RUNNING, ClientStatus.COMPLETE)]
    if failed and not any(a.followup_eval_id for a in failed):
        pending = _followed_up(view.evaluations)
        if not pending:
            return JobVerdict(JobProgress.FAILED, f"{len(failed)} failed")
    if wanted is None:
        # A system batch job for whose completion others wait has to run somewhere.
        wanted = max(len(live), 1) if change.must_complete else len(live)
    runs = len(good) >= wanted and not failed
    done = [a for a in good if a.client_status == ClientStatus.COMPLETE]
    # An evaluation that ended without an allocation is no sign of work: nothing was placed.
    is_collected = not current and view.job.status == JobStatus.DEAD and view.completed >= wanted
    if change.must_complete and is_collected:
        return JobVerdict(JobProgress.HEALTHY, "complete")
    if runs and (len(done) >= wanted or not change.must_complete):
        return JobVerdict(JobProgress.HEALTHY, _placed(good))
    if change.must_complete and runs:
        late = late and is_limited
    description = f"{len(good)}/{wanted} running"
    if change.must_complete:
        description = f"{len(done)}/{wanted} complete"
    if failed:
        description += f", {len(failed)} failed"
    return JobVerdict(JobProgress.FAILED if late else JobProgress.PROGRESSING, description)


def _wanted(job: Job) -> int | None:
    """Returns how many allocations the job asks for; None for a system job, which runs on every
    eligible node."""
    if job.type in (JobType.SYSTEM, JobType.SYSBATCH):
        return None
    return sum(group.count for group in job.task_groups)


def _placed(good: Sequence[Allocation]) -> str:
    done = sum(1 for a in good if a.client_status == ClientStatus.COMPLETE)
    running = len(good) - done
    parts = [f"{running} running"] if running else []
    parts += [f"{done} complete"] if done else []
    return ", ".join(parts) or "nothing to run"


def judge_late(rollout: Rollout, job: RolloutJob, now_ns: int) -> RolloutJob:
    """Returns the job, as failed if it has not ended by the health deadline of its commit."""
    limit_ns = rollout.gates.health_deadline_ns if rollout.gates is not None else 0
    if not limit_ns or now_ns - rollout.applied_time_ns <= limit_ns:
        return job
    if job.status in ENDED or job.status == JobProgress.WAITING:
        return job
    description = f"not healthy within {to_text(limit_ns)}: {job.description or job.status}"
    return replace(job, status=JobProgress.FAILED, description=description)


_REASONS_SHOWN = 5


def judge_rollout(jobs: Iterable[RolloutJob]) -> tuple[RolloutStatus, str]:
    """Returns the rollout's status, and one line that says why."""
    judged = list(jobs)
    by_status: dict[str, list[str]] = {}
    for job in judged:
        by_status.setdefault(job.status, []).append(job.job_id)
    waiting = [j for s, ids in by_status.items() if s not in ENDED for j in ids]
    if waiting:
        done = sum(len(ids) for status, ids in by_status.items() if status in ENDED)
        return RolloutStatus.PROGRESSING, f"{done} of {done + len(waiting)} jobs done"
    bad = [job for job in judged if job.status in (JobProgress.FAILED, JobProgress.REVERTED)]
    if bad:
        back = by_status.get(JobProgress.REVERTED)
        suffix = f"; back on the stable version: {_names(back)}" if back else ""
        skipped = by_status.get(JobProgress.SKIPPED)
        suffix += f"; not applied: {_names(skipped)}" if skipped else ""
        return RolloutStatus.FAILED, f"failed: {_reasons(bad)}{suffix}"
    if any(job.status == JobProgress.SKIPPED for job in judged):
        skipped_jobs = [job for job in judged if job.status == JobProgress.SKIPPED]
        return RolloutStatus.FAILED, f"not applied: {_reasons(skipped_jobs)}"
    if overridden := by_status.get(JobProgress.OVERRIDDEN):
        return (
            RolloutStatus.DEGRADED,
            f"changed by hand before they were healthy: {_names(overridden)}",
        )
    if superseded := by_status.get(JobProgress.SUPERSEDED):
        return (
            RolloutStatus.SUPERSEDED,
            f"changed by a newer commit before they were healthy: {_names(superseded)}",
        )
    return RolloutStatus.HEALTHY, "every job is healthy"


def _reasons(bad: Sequence[RolloutJob]) -> str:
    """Returns the first jobs by name, each with why it failed."""
    shown = sorted(bad, key=lambda job: (job.job_id, job.namespace))[:_REASONS_SHOWN]
    texts = [
        f"{job.job_id} ({job.description})" if job.description else job.job_id for job in shown
    ]
    more = f" and {len(bad) - len(shown)} more" if len(bad) > len(shown) else ""
    return ", ".join(texts) + more


def _names(job_ids: Sequence[str]) -> str:
    more = f" and {len(job_ids) - 5} more" if len(job_ids) > 5 else ""
    return ", ".join(sorted(job_ids)[:5]) + more
