"""Which later stage of a rollout may be applied now, and what its other jobs wait for. Pure.

A stage opens when everything that its jobs wait for holds. No later stage is applied once a job of
the rollout has failed, or another rollout of the source has replaced this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from orchgit.gitops.rollouts.health import JobProgress, JobVerdict
from orchgit.model.repository_policy import WaitCondition
from orchgit.model.rollout import JobWait, Rollout, RolloutJob

EVERY_JOB_BEFORE = JobWait(job_id="*", condition=WaitCondition.HEALTHY)
"""Waits until every job of the rollout's earlier stages is healthy."""

JudgeRegistered = Callable[[JobWait], JobVerdict]
"""Judges a registered job as it is now: one that the rollout waits for and does not change."""

_SHOWN = 3
_FAILED = (JobProgress.FAILED, JobProgress.REVERTED)
_CHANGED = (JobProgress.SUPERSEDED, JobProgress.OVERRIDDEN)
_MET = JobVerdict(JobProgress.HEALTHY)
_UNMET = JobVerdict(JobProgress.PROGRESSING)


@dataclass(frozen=True, slots=True)
class StageVerdict:
    """The jobs of a rollout as they are now, and the stage to apply, or None."""

    jobs: list[RolloutJob]
    open_stage: int | None = None


def wait_text(wait: JobWait) -> str:
    """Returns text like `db (healthy)`."""
    name = "every job before it" if wait.job_id == "*" else wait.job_id
    return f"{name} ({wait.condition})"


def waits_text(waits: Sequence[JobWait]) -> str:
    """Returns text like `db (healthy), migrate (complete)`; of many, the first three."""
    return _some([wait_text(wait) for wait in waits])


def unapplied_jobs(rollout: Rollout) -> frozenset[tuple[str, str]]:
    """Returns the jobs, by (namespace, job id), that the rollout has not applied, or never will:
    they are not yet, or not, as the commit wants them, and nobody changed them by hand."""
    return frozenset(
        (job.namespace, job.job_id)
        for job in rollout.jobs
        if job.status in (JobProgress.WAITING, JobProgress.SKIPPED)
    )


def judge_waiting(
    jobs: Sequence[RolloutJob],
    registered: JudgeRegistered,
    replaced: str = "",
    held_back_by: str = "",
) -> StageVerdict:
    """Judges the jobs that wait, after the others were judged.

    `replaced` says why the rollout is no longer the current one, if so; `held_back_by` why no stage
    is applied for the time being, if so.
    """
    waiting = [job for job in jobs if job.status == JobProgress.WAITING]
    if not waiting:
        return StageVerdict(list(jobs))
    if replaced:
        return _ended(jobs, JobProgress.SUPERSEDED, f"not applied: {replaced}")
    failed = [job.job_id for job in jobs if job.status in _FAILED]
    if failed:
        return _ended(jobs, JobProgress.SKIPPED, f"not applied: {_some(failed)} failed")
    conditions = _Conditions(jobs, registered)
    unmet: dict[int, list[JobWait]] = {}
    for job in waiting:
        missing = unmet[id(job)] = []
        for wait in job.waits_for:
            verdict = conditions.verdict(wait, job.stage)
            if verdict.status in _FAILED:
                why = f"not applied: {wait_text(wait)} failed: {verdict.description}"
                return _ended(jobs, JobProgress.SKIPPED, why)
            if verdict.status != JobProgress.HEALTHY:
                missing.append(wait)
    stage = min(job.stage for job in waiting)
    is_open = not held_back_by and not any(unmet[id(job)] for job in waiting if job.stage == stage)
    described = []
    for job in jobs:
        if job.status == JobProgress.WAITING and not (is_open and job.stage == stage):
            missing = unmet[id(job)]
            why = waits_text(missing) if missing else f"the jobs of stage {stage + 1}"
            job = replace(job, description=held_back_by or f"waits for {why}")
        described.append(job)
    return StageVerdict(described, stage if is_open else None)


class _Conditions:
    """Whether what the jobs of one rollout wait for holds; each condition is judged once."""

    def __init__(self, jobs: Sequence[RolloutJob], registered: JudgeRegistered) -> None:
        self._jobs = jobs
        self._by_key = {(job.namespace, job.job_id): job for job in jobs}
        self._registered = registered
        self._known: dict[tuple[str, str, str, int], JobVerdict] = {}

    def verdict(self, wait: JobWait, stage: int) -> JobVerdict:
        """Returns HEALTHY if the condition holds, FAILED if it never will."""
        key = (wait.namespace, wait.job_id, wait.condition, stage if wait.job_id == "*" else 0)
        if key not in self._known:
            self._known[key] = self._judge(wait, stage)
        return self._known[key]

    def _judge(self, wait: JobWait, stage: int) -> JobVerdict:
        if wait.job_id == "*":
            before = (job for job in self._jobs if job.stage < stage)
            return _MET if all(job.status == JobProgress.HEALTHY for job in before) else _UNMET
        job = self._by_key.get((wait.namespace, wait.job_id))
        if job is None or job.status in _CHANGED:
            return self._registered(wait)
        if job.status == JobProgress.WAITING:
            return _UNMET
        if wait.condition == WaitCondition.REGISTERED:
            return _MET
        if wait.condition == WaitCondition.COMPLETE and not job.must_complete:
            return self._registered(wait)
        return _MET if job.status == JobProgress.HEALTHY else _UNMET


def _ended(jobs: Sequence[RolloutJob], status: JobProgress, why: str) -> StageVerdict:
    return StageVerdict(
        [
            replace(job, status=status, description=why)
            if job.status == JobProgress.WAITING
            else job
            for job in jobs
        ]
    )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
