"""The text of a push: the commit's plan, its gates, and what it waits for. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from orchgit.gitops.commits.actions import Action
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
from orchgit.gitops.rollouts.waiting import waits_text
from orchgit.model.fit import FitReport, JobFit
from orchgit.model.gates import RolloutGates
from orchgit.model.rollout import ChangeCause, Commit, JobAction, Rollout, RolloutStatus

_CAUSES = {
    ChangeCause.DRIFT: "not changed by this commit: changed by hand",
    ChangeCause.RETRY: "retried",
    ChangeCause.RELEASE: "not changed by this commit: taken over",
}
_MAX_LISTED = 50


def plan_lines(plan: CommitPlan, commit: Commit, fit: FitReport) -> Iterable[str]:
    """Yields one line for each job that changes, counts of the others, and what does not fit."""
    changes, fits = plan.actions.changes, fit.by_key
    yield f'Plan for {commit.id[:8]} "{commit.subject}"'
    for action in changes[:_MAX_LISTED]:
        job_fit = fits.get(action.key)
        why = f" ({_CAUSES[action.cause]})" if action.cause in _CAUSES else ""
        if number := plan.stages.of(action.key):
            waits = waits_text(plan.stages.waits.get(action.key, ()))
            why += f" (stage {number + 1}, after {waits})"
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
        yield "This push stays to show the rollout; Ctrl-C leaves the commit waiting."
    else:
        yield f"Waiting: {rollout.status_description}"
    yield f"It goes on by itself then; `orchgit rollout watch {short}` follows it."


def _effect(action: Action, fit: JobFit | None) -> str:
    if action.desired is None:
        return (counts_text(fit.groups) if fit is not None else "") or "stop"
    job = action.desired.job
    verb = "place" if action.kind is JobAction.CREATE else "update"
    if job.is_periodic:
        return f"{verb} the schedule"
    if job.is_parameterized:
        return f"{verb} the template of dispatches"
    if fit is not None:
        return job_text(fit)
    if job.type in ("system", "sysbatch"):
        return f"{verb} on every eligible node"
    return f"{verb} {sum(group.count for group in job.task_groups)}"
