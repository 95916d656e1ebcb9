"""A rollout as it goes, as text for a push and for `orchgit rollout watch`. Pure.

The command line loads this module too: it imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orchgit.gitops.rollouts.health import ENDED, JobProgress
from orchgit.model.gates import HealthAction
from orchgit.model.rollout import Rollout, RolloutJob, RolloutStatus

_MARKS: dict[str, str] = {JobProgress.HEALTHY: "ok", JobProgress.SUPERSEDED: ">>"}
_MAX_JOBS = 500
_MAX_EXPLAINED = 10
_MAX_PROBLEMS = 200


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
            if self._said.get(key) != state and len(self._said) <= _MAX_JOBS:
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
