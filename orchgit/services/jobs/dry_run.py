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

from orchgit.errors import UnavailableError
from orchgit.jobdiff.annotate import annotated
from orchgit.jobdiff.compare import diff_jobs
from orchgit.jobdiff.spec import same_spec
from orchgit.model.allocation import Allocation
from orchgit.model.evaluation import AllocMetric, EvalTrigger, Evaluation, PlanAnnotations
from orchgit.model.fit import FitReport, JobFit, fit_report
from orchgit.model.job import Job
from orchgit.model.plan import Plan
from orchgit.services.context import UseCaseContext
from orchgit.services.evaluations import evaluation_for_job, runs_by_itself
from orchgit.services.jobs.fit import Decision, capacities, group_fits

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
    fit: JobFit = field(default_factory=JobFit)


@dataclass(frozen=True, slots=True)
class Plans:
    """The plans in the order of the jobs asked for, deletions after them.

    A job that was not planned when the time was over has no plan here; `fit` counts such jobs.
    """

    index: int
    jobs: list[JobPlan]
    fit: FitReport = field(default_factory=FitReport)


@dataclass(frozen=True, slots=True)
class DryRunOptions:
    """`budget_s`: planning stops after that time, and jobs are left out; None: no limit. Without
    `with_diff`, plans have no `diff`. With `whole_updates`, `fit` and the room for later jobs are
    those when all steps of each update are done, else those of the first step."""

    budget_s: float | None = None
    with_diff: bool = True
    whole_updates: bool = False


@dataclass(frozen=True, slots=True)
class _Change:
    old: Job | None
    new: Job
    deletes: bool = False


_DEFAULTS = DryRunOptions()
_MAX_PREEMPTED = 1_000
"""How many preempted allocations a report names."""


class DryRun:
    """Plans one request at a time; keeps the node columns from one request to the next."""

    def __init__(self, context: UseCaseContext) -> None:
        self._context = context
        self._one_at_a_time = asyncio.Lock()
        self._columns: ClusterColumns | None = None

    async def plan_jobs(
        self,
        jobs: Sequence[Job],
        deletions: Sequence[tuple[str, str]] = (),
        options: DryRunOptions = _DEFAULTS,
    ) -> Plans:
        """Plans the admitted `jobs`, and the `deletions`: (namespace, id) of jobs to be stopped.

        What stops or shrinks is planned like everything else, in order of priority. Raises
        UnavailableError if other plans leave no time for this one.
        """
        try:
            async with asyncio.timeout(options.budget_s):
                await self._one_at_a_time.acquire()
        except TimeoutError as error:
            raise UnavailableError(
                "cannot plan now: the server is planning other commits; try again"
            ) from error
        try:
            return await asyncio.to_thread(self._plan, jobs, deletions, options)
        finally:
            self._one_at_a_time.release()

    def _plan(
        self, jobs: Sequence[Job], deletions: Sequence[tuple[str, str]], options: DryRunOptions
    ) -> Plans:
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
            plans = self._plan_all(view, changes, options)
            planned = [plans[place] for place in sorted(plans)]
            report = fit_report(
                snapshot.index,
                [plan.fit for plan in planned],
                not_planned=len(changes) - len(planned),
                preempted=view.preempted[:_MAX_PREEMPTED],
                capacity=capacities(view.node_rooms()),
            )
            return Plans(snapshot.index, planned, report)

    def _plan_all(
        self, view: ImaginedView, changes: Sequence[_Change], options: DryRunOptions
    ) -> dict[int, JobPlan]:
        """Plans in order of priority, as the broker hands evaluations out. Returns the plans by
        position in `changes`."""
        clock, plans = self._context.clock, dict[int, JobPlan]()
        until_s = None if options.budget_s is None else clock.monotonic_s() + options.budget_s
        for place in sorted(range(len(changes)), key=lambda place: -changes[place].new.priority):
            if until_s is not None and clock.monotonic_s() >= until_s:
                break
            plans[place] = self._plan_one(view, changes[place], options)
        return plans

    def _plan_one(self, view: ImaginedView, change: _Change, options: DryRunOptions) -> JobPlan:
        old, new = change.old, change.new
        plan = JobPlan(new, view.index, old.job_modify_index if old else 0)
        outcome = self._schedule(view, new)
        plan.fit = self._fit_one(view, new, outcome, options.whole_updates)
        if outcome.plan is not None:
            plan.annotations = outcome.plan.annotations
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
        if options.with_diff:
            updates = plan.annotations.desired_tg_updates
            plan.diff = annotated(diff_jobs(old, None if change.deletes else new), updates)
        return plan

    def _fit_one(
        self, view: ImaginedView, job: Job, step: SchedulingOutcome, whole_updates: bool
    ) -> JobFit:
        """Returns what becomes of the job, and lets later jobs see it. `step` is what the scheduler
        would do first; with `whole_updates` all steps of the job's update count."""
        first = Decision(step.evaluation, step.plan or Plan())
        whole, goes_by_steps = first, whole_updates and _goes_by_steps(job, first)
        if goes_by_steps:
            groups = [replace(group, update=None) for group in job.task_groups]
            with view.imagining(replace(job, update=None, task_groups=groups)):
                last = self._schedule(view, job)
            whole = Decision(last.evaluation, last.plan or Plan())
        allocations: Sequence[Allocation] = ()
        if whole.plan.stops or whole.plan.updates:
            allocations = view.allocations_by_job(job.namespace, job.id)
        fit = JobFit(
            job.namespace,
            job.id,
            group_fits(job, whole, allocations, first if goes_by_steps else None),
            launch_only=not runs_by_itself(job),
        )
        if not fit.launch_only:
            view.carry_out(whole.plan)
        return fit

    def _schedule(self, view: ImaginedView, job: Job) -> SchedulingOutcome:
        from orchgit.scheduler.schedule import schedule

        evaluation = evaluation_for_job(self._context, job, EvalTrigger.JOB_REGISTER)
        evaluation.annotate_plan = True
        evaluation.snapshot_index = view.index
        return schedule(evaluation, view, self._context.now_ns(), view.index)


def _goes_by_steps(job: Job, step: Decision) -> bool:
    """Returns whether an `update` block may keep the first step from replacing everything."""
    if job.stop or not any(group.update is not None for group in job.task_groups):
        return False
    updates = (step.plan.annotations or PlanAnnotations()).desired_tg_updates.values()
    return any(each.destructive_update or each.canary for each in updates)


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
