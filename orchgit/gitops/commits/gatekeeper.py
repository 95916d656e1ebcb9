"""Applies a commit if its gates are open, and otherwise records a rollout that waits.

A waiting rollout is in the log, with its plan, before anything of it is applied. The source's loop
asks the gates again when a person, the time or the cluster may have opened them.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from orchgit.errors import ConflictError, RefusedError
from orchgit.gitops.commits.applier import MAX_ATTEMPTS, ReadCommit
from orchgit.gitops.commits.fit_text import blocked_lines, verdict_text
from orchgit.gitops.commits.forecast import Forecast, Forecaster
from orchgit.gitops.commits.log_entry import plan_hash, waiting_rollout
from orchgit.gitops.commits.plan import CommitPlan, Trigger
from orchgit.gitops.commits.services import CommitServices
from orchgit.gitops.commits.source_cache import SourceCache
from orchgit.gitops.gates.decide import GateFacts, GateVerdict, decide
from orchgit.gitops.gates.permit import Permit, PlanChangedError
from orchgit.gitops.gates.policy import gates_of
from orchgit.gitops.gates.source_readiness import unready_sources
from orchgit.model.fit import FitReport
from orchgit.model.gates import GateKind, RolloutGates, WindowOverride
from orchgit.model.rollout import Rollout, RolloutStatus
from orchgit.replication.commands.gitops import RefMove
from orchgit.services.gitops.rollouts import record_gates

_MAX_MISFITS = 5
_FIT_BUDGET_S = 30.0
"""How long the scheduler may plan a commit that has to fit."""


@dataclass(frozen=True, slots=True)
class Gatekeeper:
    """Takes commits of any source through their gates. The caller holds the lock of the source's
    mirror, and the objects of the commit are on a majority of the servers."""

    services: CommitServices
    forecaster: Forecaster

    async def carry_out(
        self,
        read: ReadCommit,
        plan: CommitPlan,
        trigger: Trigger,
        cache: SourceCache,
        ref_moves: Sequence[RefMove] = (),
        override: WindowOverride | None = None,
        forecast: Forecast | None = None,
    ) -> Rollout:
        """Applies the plan, or records that it waits; returns the rollout, which tells which.
        `forecast` is that of the plan, if the caller asked for it already.

        Raises what `CommitApplier.apply` does, and RefusedError for a push that does not fit where
        that is required.
        """
        applier = self.services.applier
        for _ in range(MAX_ATTEMPTS):
            waiting = self.waiting(plan.source.name, read.info.commit.id)
            verdict = await self.verdict(read, plan, forecast, waiting, override)
            try:
                if verdict.is_open:
                    permit = _permit(verdict, plan, waiting)
                    return await applier.apply(read, plan, trigger, cache, ref_moves, permit)
                closed = {each.gate for each in verdict.record.decisions if not each.is_open}
                if trigger.kind == "push" and waiting is None and GateKind.FIT in closed:
                    raise RefusedError(f"cannot apply the commit: it {verdict.description}")
                return await self._record_waiting(read, plan, trigger, verdict, ref_moves)
            except PlanChangedError:
                forecast = None
                plan = await applier.plan(read, plan.source.name, cache)
                read.refuse_problems(plan)
        raise ConflictError(
            f"cannot apply commit {read.info.commit.id[:12]}: its plan keeps changing; try again"
        )

    def waiting(self, source: str, commit_id: str = "") -> Rollout | None:
        """Returns the source's rollout that waits, if it is of this commit, or of any with ''."""
        with self.services.context.snapshot() as snapshot:
            found = snapshot.rollouts.waiting(source)
        return next((each for each in found if commit_id in ("", each.commit.id)), None)

    async def verdict(
        self,
        read: ReadCommit,
        plan: CommitPlan,
        forecast: Forecast | None = None,
        waiting: Rollout | None = None,
        override: WindowOverride | None = None,
    ) -> GateVerdict:
        """Returns what the gates decide about a plan now. One that changes no job passes."""
        exact = plan_hash(plan)
        if not plan.actions.changes:
            return GateVerdict(RolloutGates(), exact)
        gates = gates_of(plan.source, read.discovery.policy, read.applied_policy)
        misfit = ""
        if gates.require_fit:
            if forecast is None or forecast.fit.not_planned:
                forecast = await self.forecaster.forecast(plan, _FIT_BUDGET_S)
            fit, misfit = forecast.fit, _misfit(forecast.fit)
            # Whom a plan that has to fit preempts is part of what persons approve.
            preempted = {(each.namespace, each.job_id, each.preempted_by) for each in fit.preempted}
            exact = hashlib.sha256(repr((exact, fit.fits, sorted(preempted))).encode()).hexdigest()
        unready = ""
        if gates.depends_on:
            with self.services.context.snapshot() as snapshot:
                unready = unready_sources(snapshot, gates.depends_on)
        facts = GateFacts(
            now_ns=self.services.context.now_ns(),
            plan_hash=exact,
            waiting=waiting,
            override=override,
            misfit=misfit,
            unready=unready,
        )
        if not gates.windows:
            return decide(gates, facts)
        return await asyncio.to_thread(decide, gates, facts)

    async def withdraw(self, source: str, why: str) -> None:
        """Ends the source's waiting rollout, whose commit is not wanted any more."""
        waiting = self.waiting(source)
        if waiting is None:
            return
        ended = replace(
            waiting,
            status=RolloutStatus.SUPERSEDED,
            status_description=why,
            finished_time_ns=self.services.context.now_ns(),
        )
        applied = self.services.applier.source(source).status.applied_commit
        await record_gates(self.services.context, ended, applied)

    async def _record_waiting(
        self,
        read: ReadCommit,
        plan: CommitPlan,
        trigger: Trigger,
        verdict: GateVerdict,
        ref_moves: Sequence[RefMove],
    ) -> Rollout:
        """Records the rollout as waiting, if its record does not say so already. Raises
        PlanChangedError if the state changed meanwhile."""
        context = self.services.context
        waiting = self.waiting(plan.source.name, read.info.commit.id)
        rollout_id = waiting.id if waiting is not None else context.ids.new()
        rollout = waiting_rollout(
            plan, read.info.commit, trigger, verdict, rollout_id, context.now_ns()
        )
        if waiting is not None:
            rollout = Permit(verdict.record, waiting).stamped(rollout)
            rollout.create_index = waiting.create_index
            if rollout == waiting and not ref_moves:
                return waiting
        applied = plan.source.status.applied_commit
        try:
            index = await record_gates(context, rollout, applied, ref_moves)
        except ConflictError as error:
            raise PlanChangedError(str(error)) from error
        return replace(rollout, modify_index=index)


def _permit(verdict: GateVerdict, plan: CommitPlan, waiting: Rollout | None) -> Permit:
    record = verdict.record
    kept = record if record != RolloutGates() else None
    if not record.approvals_needed:
        return Permit(kept, waiting)
    return Permit(kept, waiting, plan_hash(plan), verdict.plan_hash)


def _misfit(fit: FitReport) -> str:
    """Returns which jobs have no room, in one line; '' if all do."""
    if fit.fits:
        return ""
    reasons = [f"{job.job_id}: {line}" for job in fit.jobs for line in blocked_lines(job)]
    more = f"; and {len(reasons) - _MAX_MISFITS} more" if len(reasons) > _MAX_MISFITS else ""
    return "; ".join(reasons[:_MAX_MISFITS]) + more if reasons else verdict_text(fit)
