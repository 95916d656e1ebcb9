"""What a commit, or files that are not committed yet, would do: the plan without the log entry."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from orchgit.errors import TooLargeError
from orchgit.gitops.commits.actions import Action
from orchgit.gitops.commits.applier import CommitApplier, ReadCommit, SourceCache
from orchgit.gitops.commits.forecast import Forecast, Forecaster
from orchgit.gitops.commits.plan import CommitPlan, plan_hash
from orchgit.gitops.git.limits import GitLimits
from orchgit.gitops.git.repository import CommitInfo
from orchgit.gitops.parsing.discovery import JobKey
from orchgit.gitops.parsing.trees import MemoryTree
from orchgit.jobdiff.compare import diff_jobs
from orchgit.jobdiff.report import JobDiff
from orchgit.model.base import Model
from orchgit.model.evaluation import DesiredUpdates
from orchgit.model.rollout import Commit
from orchgit.model.source import Source


class PreviewJob(Model):
    """One job that would change. `unplaced` says what the scheduler finds no place for, and why."""

    namespace: str
    job_id: str
    action: str
    file: str = ""
    line: int = 0
    diff: JobDiff | None = None
    desired_tg_updates: dict[str, DesiredUpdates] = {}
    unplaced: list[str] = []


class Preview(Model):
    """`problems` not empty: the commit would be refused. `plan_hash` names exactly this plan."""

    source: str
    commit: Commit | None = None
    applied_commit: str = ""
    jobs: list[PreviewJob] = []
    unchanged: int = 0
    problems: list[str] = []
    warnings: list[str] = []
    plan_hash: str = ""

    @property
    def has_changes(self) -> bool:
        return bool(self.jobs)


@dataclass(frozen=True, slots=True)
class Previewer:
    applier: CommitApplier
    forecaster: Forecaster
    limits: GitLimits

    async def of_files(
        self, source_name: str, files: Mapping[str, bytes], memory: SourceCache
    ) -> Preview:
        """`files` are a whole work tree, by path from its root: a job whose file is not among them
        would be deleted. Bounded like a push."""
        source = self.applier.source(source_name)
        read = await self._read(files, source, memory)
        return await self._preview(source, read, memory, None)

    async def between(
        self,
        source_name: str,
        old_files: Mapping[str, bytes],
        new_files: Mapping[str, bytes],
        memory: SourceCache,
    ) -> Preview:
        """What changes from one tree to another, whatever is registered; nothing is forecast."""
        source = self.applier.source(source_name)
        old = await self._read(old_files, source, memory)
        new = await self._read(new_files, source, memory)
        plan = await self.applier.plan_between(source, old.discovery, new.discovery)
        return preview_of(plan, None, {})

    async def _read(
        self, files: Mapping[str, bytes], source: Source, memory: SourceCache
    ) -> ReadCommit:
        size = sum(len(content) for content in files.values())
        if size > self.limits.max_push_bytes:
            raise TooLargeError(
                f"cannot preview {size} bytes of files: the limit max_push_bytes is "
                f"{self.limits.max_push_bytes}"
            )
        tree = MemoryTree(files, self.limits)
        discovery = await asyncio.to_thread(memory.discoverer.discover, tree, source)
        return ReadCommit(CommitInfo(Commit(), "", "", ()), tree, discovery)

    async def _preview(
        self, source: Source, read: ReadCommit, memory: SourceCache, commit: Commit | None
    ) -> Preview:
        plan = await self.applier.plan(read, source.name, memory)
        forecasts: dict[JobKey, Forecast] = {}
        if not plan.problems:
            forecasts = await self.forecaster.forecast(plan)
        return preview_of(plan, commit, forecasts)


def preview_of(
    plan: CommitPlan, commit: Commit | None, forecasts: Mapping[JobKey, Forecast]
) -> Preview:
    return Preview(
        source=plan.source.name,
        commit=commit,
        applied_commit=plan.source.status.applied_commit,
        jobs=[_job(action, forecasts.get(action.key)) for action in plan.actions.changes],
        unchanged=len(plan.actions.unchanged),
        problems=list(plan.problems),
        warnings=list(plan.warnings),
        plan_hash=plan_hash(plan),
    )


def _job(action: Action, forecast: Forecast | None) -> PreviewJob:
    old = action.registered.job if action.registered is not None else None
    new = action.desired.job if action.desired is not None else None
    job = PreviewJob(
        namespace=action.key[0],
        job_id=action.key[1],
        action=action.kind,
        diff=diff_jobs(old, new),
    )
    if action.desired is not None:
        job.file, job.line = action.desired.path, action.desired.line
    if forecast is not None:
        job.desired_tg_updates = dict(forecast.desired_updates)
        job.unplaced = list(forecast.unplaced)
    return job
