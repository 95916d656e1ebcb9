"""The text of a push: the commit's plan, its problems, and the rollout as it goes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from orchgit.gitops.commits.causes import hand_change_text
from orchgit.gitops.commits.fit_text import (
    SIGNS,
    blocked_lines,
    counts_text,
    job_text,
    preempted_lines,
    verdict_text,
)
from orchgit.gitops.commits.holds import held_text
from orchgit.gitops.commits.plan import CommitPlan
from orchgit.gitops.parsing.desired import JobKey
from orchgit.gitops.rollouts.health import ENDED, JobProgress
from orchgit.gitops.rollouts.waiting import waits_text
from orchgit.gitops.stages.stages import Stages
from orchgit.model.fit import FitReport, JobFit
from orchgit.model.gates import HealthAction, RolloutGates
from orchgit.model.job import Job
from orchgit.model.rollout import ChangeCause, Commit, JobAction, Rollout, RolloutJob, RolloutStatus

if TYPE_CHECKING:
    # The command line shows rollouts with this module too, and should start fast.
    from orchgit.gitops.commits.actions import Action
    from orchgit.gitops.commits.plan import CommitPlan

_MARKS: dict[str, str] = {JobProgress.HEALTHY: "ok", JobProgress.SUPERSEDED: ">>"}
_CAUSES = {
    ChangeCause.DRIFT: "not changed by this commit: changed by hand",
    ChangeCause.RETRY: "retried",
    ChangeCause.RELEASE: "not changed by this commit: taken over",
}
_MAX_LISTED = 50
_MAX_EXPLAINED = 10
_MAX_PROBLEMS = 200


def plan_lines(plan: CommitPlan, commit: Commit, fit: FitReport) -> Iterable[str]:
    """Yields one line for each job that changes, counts of the others, and what does not fit."""
    changes, fits = plan.actions.changes, fit.by_key
    yield f'Plan for {commit.id[:8]} "{commit.subject}"'
    for action in changes[:_MAX_LISTED]:
        job_fit = fits.get(action.key)
        why = f" ({_CAUSES[action.cause]})" if action.cause in _CAUSES else ""
        why += _stage_note(plan.stages, action.key)
        yield f"  {SIGNS[action.kind]} {action.key[1]}: {_effect(action, job_fit)}{why}"
        if action.by_hand is not None:
            yield f"      overwrites {hand_change_text(action.by_hand)}"
        yield from (f"      {reason}" for reason in (blocked_lines(job_fit) if job_fit else ()))
    if len(changes) > _MAX_LISTED:
        yield f"  ... and {len(changes) - _MAX_LISTED} more"
    yield from (f"  ! {each.job_id}: {held_text(each)}" for each in plan.actions.held[:_MAX_LISTED])
    if plan.actions.held:
        yield f"    `orchgit source retry {plan.source.name} -job JOB` applies a held version again"
    if plan.actions.unchanged:
        yield f"  = {len(plan.actions.unchanged)} unchanged"
    if plan.actions.kept:
        yield f"  . {len(plan.actions.kept)} without a file, kept because the source does not prune"
    yield from (f"  warning: {warning}" for warning in plan.warnings[:_MAX_LISTED])
    yield from (f"  {line}" for line in preempted_lines(fit))
    if not fit.fits:
        yield f"  {verdict_text(fit)}"


def gate_lines(record: RolloutGates) -> Iterable[str]:
    """Yields one line for each gate of a commit: what it decides, and why."""
    for each in record.decisions:
        mark = "ok" if each.is_open else ".."
        yield f"  {mark} {each.gate}: {each.reason}"


def waiting_lines(rollout: Rollout) -> Iterable[str]:
    """Yields what the person who pushed a commit that waits has to know."""
    short = rollout.id[:8]
    if rollout.status == RolloutStatus.AWAITING_APPROVAL:
        yield f"Waiting for approval of plan {rollout.plan_hash[:12]}:"
        yield f"  orchgit rollout approve {short}"
    else:
        yield f"Waiting: {rollout.status_description}"
    yield f"It goes on by itself then; `orchgit rollout watch {short}` follows it."


def _stage_note(stages: Stages, key: JobKey) -> str:
    """Returns text like ` (stage 2, after db (healthy))`, or '' for a job of the first stage."""
    number = stages.of(key)
    waits = waits_text(stages.waits.get(key, ()))
    return f" (stage {number + 1}, after {waits})" if number else ""


def _effect(action: Action, fit: JobFit | None) -> str:
    if action.desired is None:
        return (counts_text(fit.groups) if fit is not None else "") or "stop"
    job = action.desired.job
    if fit is None or job.is_periodic or job.is_parameterized:
        return _of_job("place" if action.kind is JobAction.CREATE else "update", job)
    return job_text(fit)


def _of_job(verb: str, job: Job) -> str:
    if job.is_periodic:
        return f"{verb} the schedule"
    if job.is_parameterized:
        return f"{verb} the template of dispatches"
    if job.type in ("system", "sysbatch"):
        return f"{verb} on every eligible node"
    return f"{verb} {sum(group.count for group in job.task_groups)}"


def problem_lines(problems: Sequence[str]) -> Iterable[str]:
    """Yields each problem, at most 200 of them."""
    yield from problems[:_MAX_PROBLEMS]
    if len(problems) > _MAX_PROBLEMS:
        yield f"... and {len(problems) - _MAX_PROBLEMS} more"


class RolloutText:
    """Turns successive states of one rollout into lines, each change once."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, str], tuple[str, str]] = {}
        self._explained: set[tuple[str, str]] = set()
        self._waits_for = ""

    def newly_failed(self, rollout: Rollout) -> list[RolloutJob]:
        """Returns the jobs that failed or were reverted since the last call; at most ten in all."""
        failed = [
            job
            for job in rollout.jobs
            if job.status in (JobProgress.FAILED, JobProgress.REVERTED)
            and (job.namespace, job.job_id) not in self._explained
        ]
        room = _MAX_EXPLAINED - len(self._explained)
        self._explained.update((job.namespace, job.job_id) for job in failed[:room])
        return failed[:room]

    def lines(self, rollout: Rollout) -> Iterable[str]:
        """Yields a line for each job whose status or description changed since the last call, and
        what the rollout waits for."""
        waits_for = rollout.status_description if rollout.is_waiting else ""
        if waits_for != self._waits_for:
            self._waits_for = waits_for
            yield f"  .. {waits_for}" if waits_for else "  ok every gate is open"
        if waits_for:
            return
        for job in rollout.jobs:
            key, state = (job.namespace, job.job_id), (job.status, job.description)
            if self._said.get(key) != state and len(self._said) <= 10 * _MAX_LISTED:
                self._said[key] = state
                mark = "." if job.status not in ENDED else "!!"
                mark = _MARKS.get(job.status, mark)
                if job.status != JobProgress.APPLIED:
                    yield f"  {mark} {job.job_id}: {job.description or job.status}"


def end_line(rollout: Rollout) -> str:
    """Returns the last line: the rollout's status, how long it took, and why."""
    if not rollout.was_applied:
        return f"{rollout.status.capitalize()}: {rollout.status_description}"
    took_s = max(0, rollout.finished_time_ns - rollout.applied_time_ns) / 1e9
    if rollout.status == RolloutStatus.HEALTHY:
        return f"Healthy after {took_s:.1f} s ({rollout.status_description})"
    text = f"{rollout.status.capitalize()} after {took_s:.1f} s: {rollout.status_description}"
    goes_back = rollout.gates is not None and rollout.gates.health == HealthAction.REVERT
    if rollout.status == RolloutStatus.FAILED and goes_back and rollout.previous_commit:
        text += f"\nThe whole commit goes back to {rollout.previous_commit[:8]}"
    return text
