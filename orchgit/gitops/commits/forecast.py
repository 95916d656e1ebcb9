"""What the scheduler would do with a commit's jobs, asked for all of them on one snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from orchgit.errors import OrchgitError
from orchgit.gitops.commits.plan import CommitPlan
from orchgit.gitops.parsing.desired import JobKey
from orchgit.gitops.rollouts.placement_reasons import placement_reasons
from orchgit.model.evaluation import DesiredUpdates
from orchgit.model.rollout import JobAction
from orchgit.services.jobs.dry_run import DryRun, JobPlan

_log = structlog.get_logger(component="gitops")


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the scheduler would do with one job: updates by group, and a line for each group that
    it finds no place for."""

    desired_updates: Mapping[str, DesiredUpdates] = field(default_factory=dict)
    unplaced: Sequence[str] = ()


class Forecaster(Protocol):
    """Asks the scheduler what a plan would do."""

    async def forecast(self, plan: CommitPlan) -> dict[JobKey, Forecast]:
        """Returns a forecast for each job of the plan, or nothing at all."""
        ...


class SchedulerForecaster:
    """Asks the scheduler by a dry run.

    A dry run that fails does not refuse a commit: the plan is then shown without forecasts. So is
    the plan of a commit that changes more than `max_jobs` jobs.
    """

    def __init__(self, dry_run: DryRun, max_jobs: int = 200) -> None:
        self._dry_run = dry_run
        self._max_jobs = max_jobs

    async def forecast(self, plan: CommitPlan) -> dict[JobKey, Forecast]:
        changes = plan.actions.changes
        if not changes or len(changes) > self._max_jobs:
            return {}
        jobs = [action.desired.job for action in changes if action.desired is not None]
        deletions = [action.key for action in plan.actions.of(JobAction.DELETE)]
        try:
            plans = await self._dry_run.plan_jobs(jobs, deletions)
        except OrchgitError as error:
            _log.warning("cannot forecast a commit", source=plan.source.name, error=str(error))
            return {}
        return {(each.job.namespace, each.job.id): _forecast_of(each) for each in plans.jobs}


def _forecast_of(plan: JobPlan) -> Forecast:
    updates = plan.annotations.desired_tg_updates if plan.annotations is not None else {}
    unplaced = []
    for group, metric in plan.failed_tg_allocs.items():
        reasons = placement_reasons(metric, plan.job.group(group))
        why = f": {', '.join(reasons)}" if reasons else ""
        unplaced.append(f"group {group}: {1 + metric.coalesced_failures} without a place{why}")
    return Forecast(updates, tuple(unplaced))
