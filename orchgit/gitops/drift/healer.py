"""Healing drift: the applied commit's version of the drifted jobs in a rollout of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from orchgit.errors import OrchgitError
from orchgit.gitops.commits.applier import ReadCommit
from orchgit.gitops.commits.plan import CommitPlan, Trigger
from orchgit.gitops.commits.plan_request import PlanRequest
from orchgit.gitops.commits.services import CommitServices
from orchgit.gitops.gates.decide import moment_text
from orchgit.gitops.gates.policy import gates_of
from orchgit.gitops.gates.windows import HORIZON_NS, denying, next_opening_ns
from orchgit.gitops.parsing.desired import JobKey
from orchgit.model.drift import JobDrift
from orchgit.model.source import DriftAction

_log = structlog.get_logger(component="gitops")

TRIGGER = Trigger("drift")


class DeniedNowError(OrchgitError):
    """A window denies changes of the source until `until_ns`, as far as that can be told."""

    def __init__(self, until_ns: int) -> None:
        until = moment_text(until_ns)
        super().__init__(f"not healed yet: a window denies changes until {until}")
        self.until_ns = until_ns


@dataclass(frozen=True, slots=True)
class Healer:
    """Heals jobs of any source."""

    services: CommitServices

    async def heal(self, source_name: str, drifts: Sequence[JobDrift]) -> dict[JobKey, str]:
        """Registers the jobs as the applied commit wants them, in one rollout, and changes nothing
        else. Returns why some of them were not healed. Raises DeniedNowError inside a window of the
        source, or of its applied commit, that denies changes."""
        applier = self.services.applier
        mirror, cache = self.services.mirror_of(source_name), self.services.caches.of(source_name)
        await self.services.synchronizer.wait_until_current(mirror.name)
        async with mirror.lock:
            source = applier.source(source_name)
            if source.paused or source.drift.action != DriftAction.HEAL:
                return {}
            commit_id = source.status.applied_commit
            read = await applier.read(mirror.open(), commit_id, source, cache)
            now_ns = self.services.context.now_ns()
            windows = denying(gates_of(source, read.discovery.policy).windows)
            ends_ns = await asyncio.to_thread(next_opening_ns, windows, now_ns)
            if ends_ns is None or ends_ns > now_ns:
                raise DeniedNowError(ends_ns or now_ns + HORIZON_NS)
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
