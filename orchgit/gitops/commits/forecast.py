"""What the scheduler would do with a commit's jobs, asked for all of them on one snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from orchgit.errors import OrchgitError
from orchgit.gitops.commits.plan import CommitPlan
from orchgit.gitops.parsing.desired import JobKey
from orchgit.model.evaluation import DesiredUpdates
from orchgit.model.fit import FitReport, failed_fit_report
from orchgit.model.rollout import JobAction
from orchgit.services.jobs.dry_run import DryRun, DryRunOptions

_log = structlog.get_logger(component="gitops")


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the scheduler would do with a commit's jobs: whether they fit, and the first step of
    each job by group."""

    fit: FitReport = field(default_factory=FitReport)
    desired_updates: Mapping[JobKey, Mapping[str, DesiredUpdates]] = field(default_factory=dict)


class Forecaster(Protocol):
    """Asks the scheduler what a plan would do."""

    async def forecast(self, plan: CommitPlan, budget_s: float | None = None) -> Forecast:
        """Returns what the scheduler would do with the jobs that the plan changes.

        Jobs that are not planned after `budget_s` (by default the forecaster's own limit) are left
        out; `fit.not_planned` counts them. A dry run that fails is told in `fit.error`.
        """
        ...


class SchedulerForecaster:
    """Asks the scheduler by a dry run, for at most `budget_s`."""

    def __init__(self, dry_run: DryRun, budget_s: float = 1.0) -> None:
        self._dry_run = dry_run
        self._budget_s = budget_s

    async def forecast(self, plan: CommitPlan, budget_s: float | None = None) -> Forecast:
        changes = plan.actions.changes
        if not changes:
            return Forecast()
        jobs = [action.desired.job for action in changes if action.desired is not None]
        deletions = [action.key for action in plan.actions.of(JobAction.DELETE)]
        options = DryRunOptions(budget_s or self._budget_s, with_diff=False, whole_updates=True)
        try:
            plans = await self._dry_run.plan_jobs(jobs, deletions, options)
        except OrchgitError as error:
            _log.warning("cannot forecast a commit", source=plan.source.name, error=str(error))
            return Forecast(failed_fit_report(str(error)))
        return Forecast(
            plans.fit,
            {
                (each.job.namespace, each.job.id): each.annotations.desired_tg_updates
                for each in plans.jobs
                if each.annotations is not None
            },
        )
