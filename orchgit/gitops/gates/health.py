"""The health gate of a commit: whether an applied commit goes back whole. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from orchgit.gitops.rollouts.health import JobProgress
from orchgit.model.gates import HealthAction
from orchgit.model.rollout import Rollout, RolloutStatus
from orchgit.model.source import Source

_BAD = frozenset((JobProgress.FAILED, JobProgress.REVERTED))
_UNDECIDED = frozenset((RolloutStatus.APPLIED, RolloutStatus.PROGRESSING))


class RevertStep(Enum):
    """What to do about a rollout: nothing yet, nothing ever, go back, or say why it cannot."""

    WAIT = auto()
    DONE = auto()
    REVERT = auto()
    EXPLAIN = auto()


@dataclass(frozen=True, slots=True)
class RevertDecision:
    """`reason` says why the commit goes back, or why it cannot."""

    step: RevertStep
    reason: str = ""


def decide_revert(source: Source, rollout: Rollout) -> RevertDecision:
    """Returns what to do about a source's rollout. A commit goes back as soon as one of its jobs
    failed for good, once, and never the revert of another."""
    gates = rollout.gates
    if (
        gates is None
        or gates.health != HealthAction.REVERT
        or gates.health_outcome
        or rollout.reverts
        or source.status.applied_rollout != rollout.id
    ):
        return RevertDecision(RevertStep.DONE)
    bad = [job for job in rollout.jobs if job.status in _BAD]
    failed = rollout.status == RolloutStatus.FAILED
    if not failed and not (bad and rollout.status in _UNDECIDED):
        is_over = rollout.status not in _UNDECIDED
        return RevertDecision(RevertStep.DONE if is_over else RevertStep.WAIT)
    reason = rollout.status_description
    if bad:
        reason = f"job {bad[0].job_id} failed: {bad[0].description or bad[0].status}"
    if not rollout.previous_commit or rollout.previous_commit == rollout.commit.id:
        if not failed:
            return RevertDecision(RevertStep.WAIT)
        why = f"cannot go back: it is the first commit of source {source.name}; {reason}"
        return RevertDecision(RevertStep.EXPLAIN, why)
    if source.paused:
        return RevertDecision(RevertStep.WAIT)
    return RevertDecision(RevertStep.REVERT, reason)
