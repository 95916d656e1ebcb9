"""Plans what registering jobs would do, all of them together, without doing it.

The real scheduler runs on one snapshot, and each job sees what the jobs before it would have taken:
the answer to "will this commit fit". numpy is imported at the first plan, in the thread that plans,
so that a server which never plans does not pay for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from orchgit.jobdiff.annotate import annotated
from orchgit.jobdiff.compare import diff_jobs
from orchgit.jobdiff.spec import same_spec
from orchgit.model.evaluation import AllocMetric, EvalTrigger, Evaluation, PlanAnnotations
from orchgit.model.job import Job
from orchgit.services.context import UseCaseContext
from orchgit.services.evaluations import evaluation_for_job, runs_by_itself

if TYPE_CHECKING:
    from orchgit.scheduler.outcome import SchedulingOutcome
    from orchgit.services.jobs.dry_run_view import ImaginedView
    from orchgit.state.columns import ClusterColumns
    from orchgit.state.snapshot import Snapshot


@dataclass(slots=True)
class JobPlan:
    """The plan of one job.

    `job_modify_index` is what the caller sends back to register exactly what was planned; 0 for a
    new job. The plan of a periodic or parameterized job shows what one launch would do. It takes no
    room from the jobs planned after it, as registering the job launches nothing.
    """

    job: Job
    index: int
    job_modify_index: int
    diff: Any = None
    annotations: PlanAnnotations | None = None
    failed_tg_allocs: dict[str, AllocMetric] = field(default_factory=dict)
    created_evals: list[Evaluation] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Plans:
    """The plans in the order of the jobs asked for, deletions after them."""

    index: int
    jobs: list[JobPlan]


@dataclass(frozen=True, slots=True)
class _Change:
    old: Job | None
    new: Job
    deletes: bool = False


class DryRun:
    """Plans one request at a time; keeps the node columns from one request to the next."""

    def __init__(self, context: UseCaseContext) -> None:
        self._context = context
        self._one_at_a_time = asyncio.Lock()
        self._columns: ClusterColumns | None = None

    async def plan_jobs(
        self, jobs: Sequence[Job], deletions: Sequence[tuple[str, str]] = ()
    ) -> Plans:
        """Plans the admitted `jobs`, then the `deletions`: (namespace, id) of jobs to be
        stopped.
        """
        async with self._one_at_a_time:
            return await asyncio.to_thread(self._plan, jobs, deletions)

    def _plan(self, jobs: Sequence[Job], deletions: Sequence[tuple[str, str]]) -> Plans:
        # Imported here: numpy costs memory and start-up time that only planning should pay.
        from orchgit.services.jobs.dry_run_view import ImaginedView
        from orchgit.state.cluster_view import SnapshotClusterView
        from orchgit.state.columns import ClusterColumns

        if self._columns is None:
            self._columns = ClusterColumns()
        with self._context.snapshot() as snapshot:
            self._columns.refresh(snapshot)
            changes = _changes(snapshot, jobs, deletions)
            real = SnapshotClusterView(snapshot, self._columns)
            view = ImaginedView(real, [change.new for change in changes])
            return Plans(snapshot.index, self._plan_all(view, changes))

    def _plan_all(self, view: ImaginedView, changes: Sequence[_Change]) -> list[JobPlan]:
        """Plans in order of priority, as the broker hands evaluations out."""
        plans: dict[int, JobPlan] = {}
        order = sorted(range(len(changes)), key=lambda place: -changes[place].new.priority)
        for place in order:
            plans[place] = self._plan_one(view, changes[place])
        return [plans[place] for place in range(len(changes))]

    def _plan_one(self, view: ImaginedView, change: _Change) -> JobPlan:
        old, new = change.old, change.new
        plan = JobPlan(new, view.index, old.job_modify_index if old else 0)
        outcome = self._schedule(view, new)
        if outcome.plan is not None:
            plan.annotations = outcome.plan.annotations
            if runs_by_itself(new):
                view.carry_out(outcome.plan)
        plan.annotations = (
            plan.annotations or outcome.evaluation.plan_annotations or PlanAnnotations()
        )
        plan.failed_tg_allocs = outcome.evaluation.failed_tg_allocs or {}
        plan.created_evals = [
            replace(
                each,
                failed_tg_allocs=outcome.evaluation.failed_tg_allocs,
                job_modify_index=plan.job_modify_index,
                snapshot_index=0,
            )
            for each in outcome.new_evaluations
        ]
        updates = plan.annotations.desired_tg_updates
        plan.diff = annotated(diff_jobs(old, None if change.deletes else new), updates)
        return plan

    def _schedule(self, view: ImaginedView, job: Job) -> SchedulingOutcome:
        from orchgit.scheduler.schedule import schedule

        evaluation = evaluation_for_job(self._context, job, EvalTrigger.JOB_REGISTER)
        evaluation.annotate_plan = True
        evaluation.snapshot_index = view.index
        return schedule(evaluation, view, self._context.now_ns(), view.index)


def _changes(
    snapshot: Snapshot, jobs: Sequence[Job], deletions: Sequence[tuple[str, str]]
) -> list[_Change]:
    changes = []
    for job in jobs:
        old = snapshot.jobs.get(job.namespace, job.id)
        changes.append(_Change(old, _as_registered(old, job, snapshot.index + 1)))
    for namespace, job_id in deletions:
        old = snapshot.jobs.get(namespace, job_id)
        if old is not None:
            changes.append(_Change(old, replace(old, stop=True, version=old.version + 1), True))
    return changes


def _as_registered(old: Job | None, job: Job, index: int) -> Job:
    """Returns the job as the log would store it: a new version only for a new specification."""
    if old is None:
        return replace(job, create_index=index, modify_index=index, job_modify_index=index)
    if same_spec(old, job):
        return old
    return replace(
        job,
        version=old.version + 1,
        create_index=old.create_index,
        modify_index=index,
        job_modify_index=index,
        submit_time_ns=job.submit_time_ns or old.submit_time_ns,
    )
