"""Follows every active rollout until it has ended: one loop on the leader.

A rollout is judged again when something that it depends on changed, and recorded in the log when
its status changed. All input is in the state, so a new leader goes on where the last one stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields

import structlog
from msgspec.structs import replace

from orchgit.errors import ConflictError, OrchgitError, UnavailableError
from orchgit.gitops.rollouts.failed_versions import failed_versions
from orchgit.gitops.rollouts.health import (
    ENDED,
    SCHEDULING,
    Deadline,
    JobProgress,
    JobVerdict,
    judge_job,
    judge_late,
    judge_rollout,
)
from orchgit.gitops.rollouts.job_views import LaterRollouts, view_of
from orchgit.gitops.rollouts.timings import RolloutTimings
from orchgit.gitops.rollouts.waiting import judge_waiting
from orchgit.model.allocation import ClientStatus
from orchgit.model.evaluation import EvalStatus
from orchgit.model.held_version import HeldVersion
from orchgit.model.job import Job
from orchgit.model.repository_policy import WaitCondition
from orchgit.model.rollout import JobAction, JobWait, Rollout, RolloutJob
from orchgit.model.source import Source
from orchgit.services.context import UseCaseContext
from orchgit.services.gitops.rollouts import record_rollout
from orchgit.state.snapshot import Snapshot

_log = structlog.get_logger(component="gitops")

_MAX_LATEST = 1_000
"""How many judged rollouts are kept in memory for those who follow one."""
_MANY_JOBS = 200
_TABLES = ("allocations", "deployments", "evaluations", "jobs", "rollouts", "sources")


@dataclass(frozen=True, slots=True)
class TrackerConfig:
    """`patience_s` is how long a job may make no progress if neither its source nor its deployment
    says so. `pause_s` is the least time between two judgements, `record_interval_s` that between
    two log entries of one rollout's progress. The loop looks again after `busy_wait_s`, or
    `idle_wait_s` without an active rollout, even if nothing changed."""

    patience_s: float = 600.0
    pause_s: float = 0.02
    record_interval_s: float = 1.0
    idle_wait_s: float = 300.0
    busy_wait_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """A rollout as it is stored and as a snapshot shows it, the versions that failed since it was
    stored, and the later stage to apply now, or None."""

    before: Rollout
    after: Rollout
    failed: Sequence[HeldVersion]
    open_stage: int | None = None


class RolloutTracker:
    """Judges active rollouts, and tells those who follow one.

    `on_open_stage` is called with the name of a source whose current rollout has a later stage to
    apply, again and again until that stage is applied. `stage_problem` returns why that cannot be
    done yet, or ''. `on_ended` is called once with each rollout that has ended.
    """

    def __init__(
        self,
        context: UseCaseContext,
        config: TrackerConfig | None = None,
        on_open_stage: Callable[[str], None] = lambda source: None,
        stage_problem: Callable[[str], str] = lambda source: "",
        on_ended: Callable[[Rollout], None] = lambda rollout: None,
    ) -> None:
        self._context = context
        self._config = config or TrackerConfig()
        self._on_open_stage = on_open_stage
        self._stage_problem = stage_problem
        self._on_ended = on_ended
        self.timings = RolloutTimings()
        self._latest: dict[str, Rollout] = {}
        self._recorded_at_s: dict[str, float] = {}
        self._news = asyncio.Condition()
        self._running = True

    async def run(self) -> None:
        """Runs until cancelled; then those who follow a rollout get UnavailableError."""
        self._running = True
        self.timings.start(self._context.now_ns())
        try:
            while True:
                started_s = self._context.clock.monotonic_s()
                try:
                    index, judged = await asyncio.to_thread(self._judged)
                    for each in judged:
                        await self._publish(each)
                        if each.open_stage is not None:
                            self._on_open_stage(each.after.source)
                except OrchgitError as error:
                    _log.warning("cannot judge rollouts", error=str(error))
                    await self._context.clock.sleep(1.0)
                    continue
                active = any(
                    each.after.was_applied and not each.after.is_terminal for each in judged
                )
                watch = self._context.state.store.watch
                if active:  # any change may decide it
                    spent_s = self._context.clock.monotonic_s() - started_s
                    await self._context.clock.sleep(max(self._config.pause_s, 4 * spent_s))
                    await watch.wait(_TABLES, index, self._config.busy_wait_s)
                else:
                    await watch.wait(("rollouts",), index, self._config.idle_wait_s)
        finally:
            self._running = False
            async with self._news:
                self._news.notify_all()

    def _judged(self) -> tuple[int, list[Judgement]]:
        """Returns the index of a snapshot, and the judgement of each active rollout."""
        now_ns = self._context.now_ns()
        patience_ns = int(self._config.patience_s * 1e9)
        with self._context.snapshot() as snapshot:
            active = snapshot.rollouts.active()
            judged = []
            later = LaterRollouts(snapshot)
            for before in active:
                after, stage = judge(snapshot, before, now_ns, patience_ns, later)
                if stage is not None and (why := self._stage_problem(before.source)):
                    after = _held_up(after, stage, why)
                failed = failed_versions(snapshot, before, after, now_ns)
                judged.append(Judgement(before, after, failed, stage))
            known = {rollout.id for rollout in active}
            for rollout_id, latest in list(self._latest.items()):
                # Somebody else ended it: it was reverted, rejected or superseded.
                if not latest.is_terminal and rollout_id not in known:
                    ended = snapshot.rollouts.get(rollout_id)
                    judged += [Judgement(ended, ended, (), None)] if ended is not None else []
            return snapshot.index, judged

    async def _publish(self, judgement: Judgement) -> None:
        """Records a change that is due in the log, and tells those who follow the rollout. The
        versions that failed are held from the same entry on."""
        before, after = judgement.before, judgement.after
        known = self._latest.get(after.id)
        is_recorded = before.jobs == after.jobs and before.status == after.status
        if judgement.failed or (not is_recorded and self._is_due(before, after)):
            try:
                await record_rollout(self._context, after, judgement.failed, before.modify_index)
            except ConflictError:
                return  # a stage was applied meanwhile: the rollout is judged again
            self._recorded_at_s[after.id] = self._context.clock.monotonic_s()
        if known is not None and _shows(known) == _shows(after):
            return
        if known is None or not known.was_applied:
            self.timings.applied(after)
        if after.is_terminal:
            self.timings.ended(after)
            self._on_ended(after)
        async with self._news:
            while len(self._latest) >= _MAX_LATEST:
                self._latest.pop(next(iter(self._latest)))
            self._latest[after.id] = after
            self._news.notify_all()
        if after.is_terminal:
            self._recorded_at_s.pop(after.id, None)
            _log.info(
                "rollout finished",
                rollout=after.id,
                source=after.source,
                commit=after.commit.id,
                status=after.status,
            )

    def _is_due(self, before: Rollout, after: Rollout) -> bool:
        """Returns whether to record now: each change of status at once, progress within one at most
        once every `record_interval_s`."""
        if before.status != after.status:
            return True
        last_s = self._recorded_at_s.get(after.id, float("-inf"))
        return self._context.clock.monotonic_s() - last_s >= self._config.record_interval_s

    async def follow(self, rollout: Rollout) -> AsyncIterator[Rollout]:
        """Yields the rollout each time it changes, up to and including its end. Raises
        UnavailableError when this server stops or is no longer the leader."""
        seen: Rollout | None = None
        while not rollout.is_terminal:
            async with self._news:
                while (now := self._latest.get(rollout.id)) is None or now is seen:
                    if not self._running:
                        raise UnavailableError("this server stopped following rollouts")
                    await self._news.wait()
            seen = rollout = now
            yield now


def _held_up(rollout: Rollout, stage: int, why: str) -> Rollout:
    """Returns the rollout with the reason why an open stage is not applied yet."""
    return replace(
        rollout,
        jobs=[
            replace(job, description=f"cannot be applied yet: {why}")
            if job.status == JobProgress.WAITING and job.stage == stage
            else job
            for job in rollout.jobs
        ],
    )


def _shows(rollout: Rollout) -> tuple[object, ...]:
    """Returns what those who follow a rollout see of it."""
    waits_for = "" if rollout.was_applied else rollout.status_description
    return rollout.status, waits_for, rollout.jobs


def judge(
    snapshot: Snapshot, rollout: Rollout, now_ns: int, patience_ns: int, later: LaterRollouts
) -> tuple[Rollout, int | None]:
    """Returns the rollout as this snapshot shows it, and the later stage to apply now, or None.
    Jobs that have ended keep their status. `later` is of the same snapshot."""
    if not rollout.was_applied:
        return rollout, None  # it waits at its gates
    source = snapshot.sources.get(rollout.source)
    deadline = Deadline(patience_ns, source.rollout_deadline_ns if source is not None else 0)
    replaced_by = later.changing_jobs_of(rollout)
    unscheduled = _unscheduled(snapshot, rollout, deadline, now_ns)
    judged = [
        replace(job, status=JobProgress.PROGRESSING, description=SCHEDULING)
        if job.eval_id in unscheduled
        else _judged_job(snapshot, rollout, job, now_ns, deadline, replaced_by)
        for job in rollout.jobs
    ]
    judged = [judge_late(rollout, job, now_ns) for job in judged]
    since_ns = max((rollout.applied_time_ns, *(job.applied_time_ns for job in rollout.jobs)))

    def registered(wait: JobWait) -> JobVerdict:
        return judge_registered(snapshot, wait, since_ns, now_ns, deadline)

    is_paused = source is not None and source.paused
    held_back_by = f"waits until source {rollout.source} is resumed" if is_paused else ""
    stages = judge_waiting(judged, registered, _replaced_because(source, rollout), held_back_by)
    status, description = judge_rollout(stages.jobs)
    after = replace(rollout, jobs=stages.jobs, status=status, status_description=description)
    if after.is_terminal:
        after = replace(after, finished_time_ns=now_ns)
    return after, stages.open_stage


def _unscheduled(
    snapshot: Snapshot, rollout: Rollout, deadline: Deadline, now_ns: int
) -> Collection[str]:
    """Returns the evaluations of jobs that only wait for the scheduler, where a rollout has so many
    jobs that a look at each takes long."""
    if len(rollout.jobs) < _MANY_JOBS or deadline.is_past(rollout.applied_time_ns, now_ns):
        return ()
    pending = snapshot.evaluations.ids_of_status(EvalStatus.PENDING)
    versions = snapshot.jobs.versions_of_source(rollout.source) if pending else {}
    return {
        job.eval_id
        for job in rollout.jobs
        if job.eval_id in pending
        and job.action != JobAction.DELETE
        and job.status in (JobProgress.APPLIED, JobProgress.PROGRESSING)
        and versions.get((job.namespace, job.job_id)) == job.job_version
    }


def judge_registered(
    snapshot: Snapshot, wait: JobWait, since_ns: int, now_ns: int, deadline: Deadline
) -> JobVerdict:
    """Judges a registered job that others wait for and that no rollout changes: HEALTHY if the
    condition holds now, FAILED if it will not."""
    job = snapshot.jobs.get(wait.namespace, wait.job_id)
    is_there = job is not None and not job.stop
    if wait.condition == WaitCondition.REGISTERED:
        return JobVerdict(JobProgress.HEALTHY if is_there else JobProgress.PROGRESSING)
    if not is_there and wait.condition == WaitCondition.COMPLETE:
        return _judge_ended_work(snapshot, wait, job)
    assumed = RolloutJob(
        namespace=wait.namespace,
        job_id=wait.job_id,
        action=JobAction.UNCHANGED,
        job_version=job.version if job is not None else 0,
        must_complete=wait.condition == WaitCondition.COMPLETE,
    )
    verdict = judge_job(assumed, view_of(snapshot, assumed), since_ns, now_ns, deadline)
    if verdict.status == JobProgress.OVERRIDDEN:
        late = deadline.is_past(since_ns, now_ns)
        return replace_fields(
            verdict, status=JobProgress.FAILED if late else JobProgress.PROGRESSING
        )
    return verdict


def _judge_ended_work(snapshot: Snapshot, wait: JobWait, job: Job | None) -> JobVerdict:
    """Judges a job that ran once and is stopped, or of which nothing is left: the records of work
    that is complete are collected after a while."""
    held = snapshot.held_versions.get(wait.namespace, wait.job_id)
    if held is not None:
        return JobVerdict(JobProgress.FAILED, held.reason)
    if job is None:
        return JobVerdict(JobProgress.HEALTHY, "complete")
    done = [
        alloc
        for alloc in snapshot.allocations.of_job(wait.namespace, wait.job_id)
        if alloc.client_status == ClientStatus.COMPLETE and not alloc.is_server_terminal
    ]
    if len(done) >= sum(group.count for group in job.task_groups):
        return JobVerdict(JobProgress.HEALTHY, "complete")
    return JobVerdict(JobProgress.FAILED, "stopped before its work was complete")


def _replaced_because(source: Source | None, rollout: Rollout) -> str:
    """Returns why the rollout is not the source's current one, or ''."""
    if source is None:
        return "its source was removed"
    newest = source.status.applied_rollout
    if newest == rollout.id:
        return ""
    if source.status.applied_commit != rollout.commit.id:
        return f"replaced by commit {source.status.applied_commit[:8]}"
    return f"replaced by rollout {newest[:8]} of the same commit"


def _judged_job(
    snapshot: Snapshot,
    rollout: Rollout,
    job: RolloutJob,
    now_ns: int,
    deadline: Deadline,
    replaced_by: Mapping[tuple[str, str], str],
) -> RolloutJob:
    if job.status in ENDED or job.status == JobProgress.WAITING:
        return job
    view = view_of(snapshot, job, replaced_by.get((job.namespace, job.job_id), ""))
    since_ns = job.applied_time_ns or rollout.applied_time_ns
    verdict = judge_job(job, view, since_ns, now_ns, deadline)
    return replace(
        job,
        status=verdict.status,
        description=verdict.description,
        deployment_id=verdict.deployment_id or job.deployment_id,
    )
