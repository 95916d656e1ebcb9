"""Healing drift: the applied commit's version of the drifted jobs in a rollout of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from orchgit.gitops.commits.applier import ReadCommit
from orchgit.gitops.commits.plan import CommitPlan, Trigger
from orchgit.gitops.commits.plan_request import PlanRequest
from orchgit.gitops.commits.services import CommitServices
from orchgit.gitops.parsing.desired import JobKey
from orchgit.model.drift import JobDrift
from orchgit.model.source import DriftAction

_log = structlog.get_logger(component="gitops")

TRIGGER = Trigger("drift")


@dataclass(frozen=True, slots=True)
class Healer:
    """Heals jobs of any source."""

    services: CommitServices

    async def heal(self, source_name: str, drifts: Sequence[JobDrift]) -> dict[JobKey, str]:
        """Registers the jobs as the applied commit wants them, in one rollout, and changes nothing
        else. Returns why some of them were not healed."""
        applier = self.services.applier
        mirror, cache = self.services.mirror_of(source_name), self.services.caches.of(source_name)
        await self.services.synchronizer.wait_until_current(mirror.name)
        async with mirror.lock:
            source = applier.source(source_name)
            if source.paused or source.drift.action != DriftAction.HEAL:
                return {}
            commit_id = source.status.applied_commit
            read = await applier.read(mirror.open(), commit_id, source, cache)
            plan, notes = await self._plan(read, source_name, drifts)
            if plan is None or not plan.actions.changes:
                return notes
            rollout = await applier.apply(read, plan, TRIGGER, cache)
            _log.info(
                "drift healed", source=source_name, rollout=rollout.id, jobs=len(rollout.jobs)
            )
            return notes

    async def _plan(
        self, read: ReadCommit, source_name: str, drifts: Sequence[JobDrift]
    ) -> tuple[CommitPlan | None, dict[JobKey, str]]:
        """Plans the jobs together; if that has problems, without those that have them."""
        applier, cache = self.services.applier, self.services.caches.of(source_name)
        keys = frozenset((each.namespace, each.job_id) for each in drifts)
        plan = await applier.plan(read, source_name, cache, PlanRequest(only=keys))
        if not plan.problems:
            return plan, {}
        notes = {}
        for key in sorted(keys):
            alone = await applier.plan(read, source_name, cache, PlanRequest(only=frozenset([key])))
            if alone.problems:
                notes[key] = f"not healed: {alone.problems[0]}"
        rest = keys - notes.keys()
        if not rest:
            return None, notes
        plan = await applier.plan(read, source_name, cache, PlanRequest(only=rest))
        read.refuse_problems(plan)
        return plan, notes
