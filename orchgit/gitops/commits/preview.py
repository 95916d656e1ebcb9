"""What files that are not committed yet would do: a commit's plan, without the log entry."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace

from orchgit.errors import TooLargeError
from orchgit.gitops.commits.actions import Action
from orchgit.gitops.commits.applier import ReadCommit, applied_jobs, applied_policy
from orchgit.gitops.commits.causes import hand_change_text
from orchgit.gitops.commits.fit_text import blocked_lines
from orchgit.gitops.commits.forecast import Forecast
from orchgit.gitops.commits.gatekeeper import Gatekeeper
from orchgit.gitops.commits.holds import held_text
from orchgit.gitops.commits.log_entry import plan_hash
from orchgit.gitops.commits.plan import CommitPlan
from orchgit.gitops.commits.services import CommitServices
from orchgit.gitops.git.repository import CommitInfo
from orchgit.gitops.parsing.trees import MemoryTree
from orchgit.jobdiff.compare import diff_jobs
from orchgit.jobdiff.report import JobDiff
from orchgit.model.base import Model
from orchgit.model.evaluation import DesiredUpdates
from orchgit.model.fit import FitReport, JobFit
from orchgit.model.gates import GateDecision
from orchgit.model.held_version import HeldVersion
from orchgit.model.rollout import ChangeCause, Commit, JobWait
from orchgit.model.source import Source

FIT_BUDGET_S = 60.0
"""How long the scheduler may plan for `orchgit diff -fit`; the jobs left then are counted."""


class PreviewHandChange(Model):
    """What people changed of a job since the applied commit, and what the commit would overwrite.
    `version` is -1 for a job that was purged; `by` says who it was, as far as it is known."""

    version: int
    stopped: bool = False
    fields: list[str] = []
    by: str = ""
    text: str = ""


class PreviewHeld(Model):
    """A version that the files have and that would not be applied; `text` says why."""

    version: HeldVersion
    text: str = ""


class PreviewJob(Model):
    """One job that would change. `unplaced` has a line for each group with allocations that find
    no node; `fit` has all numbers. A job of a later stage (the first is 0) is applied when what it
    waits for holds."""

    namespace: str
    job_id: str
    action: str
    file: str = ""
    line: int = 0
    diff: JobDiff | None = None
    desired_tg_updates: dict[str, DesiredUpdates] = {}
    unplaced: list[str] = []
    cause: str = ChangeCause.COMMIT
    by_hand: PreviewHandChange | None = None
    fit: JobFit | None = None
    stage: int = 0
    waits_for: list[JobWait] = []


class Preview(Model):
    """What a commit of the files would do. With `problems` it would be refused. `plan_hash` names
    exactly this plan. `fit` is None where the scheduler was not asked; `gates` say what the commit
    would wait for."""

    source: str
    commit: Commit | None = None
    applied_commit: str = ""
    jobs: list[PreviewJob] = []
    unchanged: int = 0
    held: list[PreviewHeld] = []
    problems: list[str] = []
    warnings: list[str] = []
    plan_hash: str = ""
    fit: FitReport | None = None
    gates: list[GateDecision] = []


@dataclass(frozen=True, slots=True)
class Previewer:
    """Plans trees of files for `orchgit diff`. Trees are bounded like a push: TooLargeError names
    the limit that one exceeds."""

    services: CommitServices
    gatekeeper: Gatekeeper

    async def of_files(
        self, source_name: str, files: Mapping[str, bytes], fit: bool = False
    ) -> Preview:
        """Returns what a commit of `files` would do now. `files` are a whole work tree, by path
        from its root: a job whose file is not among them would be deleted. With `fit` the scheduler
        may plan for `FIT_BUDGET_S`, else as long as for a push."""
        source = self.services.applier.source(source_name)
        cache = self.services.caches.of(source_name)
        repository = self.services.mirror_of(source_name).open()
        before = await asyncio.to_thread(applied_jobs, repository, source, cache)
        policy = await asyncio.to_thread(applied_policy, repository, source, cache)
        read = await self._read(files, source)
        read = replace(read, applied_jobs=before, applied_policy=policy)
        plan = await self.services.applier.plan(read, source_name, cache)
        if plan.problems:
            return preview_of(plan, None)
        forecast = await self.gatekeeper.forecaster.forecast(plan, FIT_BUDGET_S if fit else None)
        preview = preview_of(plan, forecast)
        verdict = await self.gatekeeper.verdict(read, plan, forecast)
        preview.gates, preview.plan_hash = verdict.record.decisions, verdict.plan_hash
        return preview

    async def between(
        self, source_name: str, old_files: Mapping[str, bytes], new_files: Mapping[str, bytes]
    ) -> Preview:
        """Returns what changes from one tree to another, whatever is registered, without asking
        the scheduler."""
        source = self.services.applier.source(source_name)
        old = await self._read(old_files, source)
        new = await self._read(new_files, source)
        plan = await self.services.applier.plan_between(source, old.discovery, new.discovery)
        return preview_of(plan, None)

    async def _read(self, files: Mapping[str, bytes], source: Source) -> ReadCommit:
        limits = self.services.git.limits
        size = sum(len(content) for content in files.values())
        if size > limits.max_preview_bytes:
            raise TooLargeError(
                f"cannot preview {size} bytes of files: the limit max_preview_bytes is "
                f"{limits.max_preview_bytes}"
            )
        tree = MemoryTree(files, limits)
        discoverer = self.services.caches.of(source.name).discoverer
        discovery = await asyncio.to_thread(discoverer.discover, tree, source)
        return ReadCommit(CommitInfo(Commit(), "", "", ()), tree, discovery)


def preview_of(plan: CommitPlan, forecast: Forecast | None) -> Preview:
    """Returns a plan as people see it; the forecast is None where the scheduler was not asked."""
    known, stages = forecast or Forecast(), plan.stages
    fits, jobs = known.fit.by_key, []
    for action in plan.actions.changes:
        key = action.key
        job = _job(action, fits.get(key), known.desired_updates.get(key, {}))
        job.stage, job.waits_for = stages.of(key), list(stages.waits.get(key, ()))
        jobs.append(job)
    return Preview(
        source=plan.source.name,
        applied_commit=plan.source.status.applied_commit,
        jobs=jobs,
        unchanged=len(plan.actions.unchanged),
        held=[PreviewHeld(each, held_text(each)) for each in plan.actions.held],
        problems=list(plan.problems),
        warnings=list(plan.warnings),
        plan_hash=plan_hash(plan),
        fit=forecast.fit if forecast is not None else None,
    )


def _job(
    action: Action, fit: JobFit | None, desired_updates: Mapping[str, DesiredUpdates]
) -> PreviewJob:
    old = action.registered.job if action.registered is not None else None
    new = action.desired.job if action.desired is not None else None
    job = PreviewJob(
        namespace=action.key[0],
        job_id=action.key[1],
        action=action.kind,
        diff=diff_jobs(old, new),
        desired_tg_updates=dict(desired_updates),
        cause=action.cause,
    )
    if action.by_hand is not None:
        change = action.by_hand
        job.by_hand = PreviewHandChange(
            version=change.version,
            stopped=change.is_stopped,
            fields=list(change.fields),
            by=change.by,
            text=hand_change_text(change),
        )
    if action.desired is not None:
        job.file, job.line = action.desired.path, action.desired.line
    if fit is not None:
        job.fit, job.unplaced = fit, list(blocked_lines(fit))
    return job
