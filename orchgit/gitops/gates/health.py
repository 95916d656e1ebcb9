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


class HealthStep(Enum):
    """What to do about a rollout: nothing yet, nothing ever, go back, or say why it cannot."""

    WAIT = auto()
    DONE = auto()
    REVERT = auto()
    EXPLAIN = auto()


@dataclass(frozen=True, slots=True)
class HealthDecision:
    """`reason` says why the commit goes back, or why it cannot."""

    step: HealthStep
    reason: str = ""


def decide_health(source: Source, rollout: Rollout) -> HealthDecision:
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
        return HealthDecision(HealthStep.DONE)
    bad = [job for job in rollout.jobs if job.status in _BAD]
    failed = rollout.status == RolloutStatus.FAILED
    if not failed and not (bad and rollout.status in _UNDECIDED):
        is_over = rollout.status not in _UNDECIDED
        return HealthDecision(HealthStep.DONE if is_over else HealthStep.WAIT)
    reason = rollout.status_description
    if bad:
        reason = f"job {bad[0].job_id} failed: {bad[0].description or bad[0].status}"
    if not rollout.previous_commit or rollout.previous_commit == rollout.commit.id:
        if not failed:
            return HealthDecision(HealthStep.WAIT)
        why = f"cannot go back: it is the first commit of source {source.name}; {reason}"
        return HealthDecision(HealthStep.EXPLAIN, why)
    if source.paused:
        return HealthDecision(HealthStep.WAIT)
    return HealthDecision(HealthStep.REVERT, reason)
