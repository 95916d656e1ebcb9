"""When jobs that have drifted are healed or adopted: after a delay, and ever more rarely. Pure.

Someone, or a program, may change a job back each time it is healed. Each attempt doubles the pause
until the next one of that job, up to a bound; the count begins anew when the job was left alone for
long enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orchgit.backoff import backoff_s
from orchgit.gitops.parsing.desired import JobKey

MAX_PAUSE_S = 600.0
CALM_S = 1200.0
"""How long a job has to be left alone until its attempts are forgotten; longer than any pause."""


@dataclass(slots=True)
class _Job:
    due_s: float
    is_drifted: bool = True
    attempts: int = 0
    changed_s: float = 0.0
    """When the job last began or ceased to be drifted."""


class CorrectionSchedule:
    """Knows jobs by their keys; all times are monotonic seconds."""

    def __init__(self) -> None:
        self._jobs: dict[JobKey, _Job] = {}

    def observe(self, delays_s: Mapping[JobKey, float], now_s: float) -> None:
        """Takes the jobs that are drifted now and to be corrected, each with its source's delay."""
        for key, delay_s in delays_s.items():
            known = self._jobs.get(key)
            if known is None:
                self._jobs[key] = _Job(now_s + delay_s, changed_s=now_s)
            elif not known.is_drifted:
                known.is_drifted, known.changed_s = True, now_s
                known.due_s = max(known.due_s, now_s + delay_s)
        for key in [key for key in self._jobs if key not in delays_s]:
            job = self._jobs[key]
            if job.is_drifted:
                job.is_drifted, job.changed_s = False, now_s
            elif not job.attempts or now_s - job.changed_s >= CALM_S:
                del self._jobs[key]

    def due(self, now_s: float) -> set[JobKey]:
        """Returns the drifted jobs whose time has come."""
        return {key for key, job in self._jobs.items() if job.is_drifted and job.due_s <= now_s}

    def attempted(self, key: JobKey, delay_s: float, now_s: float) -> None:
        """Notes an attempt, whether it succeeded or not."""
        job = self._jobs[key]
        job.attempts += 1
        job.due_s = now_s + backoff_s(job.attempts, delay_s, max(MAX_PAUSE_S, delay_s))

    def postpone(self, key: JobKey, until_s: float) -> None:
        """Makes the job due at `until_s`; nothing was attempted."""
        self._jobs[key].due_s = until_s

    def next_s(self) -> float | None:
        """Returns when the next drifted job is due; None if there is none."""
        return min((job.due_s for job in self._jobs.values() if job.is_drifted), default=None)
