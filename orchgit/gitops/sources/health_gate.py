"""Takes a commit back that did not become healthy, if its gates ask for that: one loop on the
leader.

All input is in the state: the outcome is recorded in the rollout, so that a new leader goes on
where the last one stopped, and no commit goes back twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from msgspec.structs import replace

from orchgit.backoff import backoff_s
from orchgit.errors import ConflictError, JobFileError, OrchgitError
from orchgit.gitops.commits.rollback import MAX_REASON, RollbackRequest
from orchgit.gitops.gates.health import RevertDecision, RevertStep, decide_revert
from orchgit.model.rollout import Rollout
from orchgit.services.context import UseCaseContext
from orchgit.services.gitops.rollouts import record_rollout

WHO = "health gate"
"""Who a rollout is pushed by that takes another back because of its health."""
_IDLE_WAIT_S = 300.0
_RETRY_S = 1.0
_MAX_RETRY_S = 60.0

Revert = Callable[[str, RollbackRequest], Awaitable[Rollout]]

_log = structlog.get_logger(component="gitops")


class HealthGate:
    """Watches the applied rollout of each source; `revert` takes one back (`Reverter.revert`)."""

    def __init__(self, context: UseCaseContext, revert: Revert) -> None:
        self._context = context
        self._revert = revert
        self._done: set[str] = set()
        self._failures = 0

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            try:
                index, due = await asyncio.to_thread(self._due)
                for rollout, decision in due:
                    await self._act(rollout, decision)
                self._failures = 0
            except OrchgitError as error:
                self._failures += 1
                _log.warning("cannot take a commit back", error=str(error))
                pause_s = backoff_s(min(self._failures, 8), _RETRY_S, _MAX_RETRY_S)
                await self._context.clock.sleep(pause_s)
                continue
            watch = self._context.state.store.watch
            await watch.wait(("rollouts", "sources"), index, _IDLE_WAIT_S)

    def _due(self) -> tuple[int, list[tuple[Rollout, RevertDecision]]]:
        """Returns the index of a snapshot, and the rollouts about which there is something to
        do."""
        due = []
        with self._context.snapshot() as snapshot:
            sources = snapshot.sources.all()
            self._done &= {source.status.applied_rollout for source in sources}
            for source in sources:
                rollout_id = source.status.applied_rollout
                if not rollout_id or rollout_id in self._done:
                    continue
                rollout = snapshot.rollouts.get(rollout_id)
                if rollout is None:
                    continue
                decision = decide_revert(source, rollout)
                if decision.step is RevertStep.DONE:
                    self._done.add(rollout_id)
                elif decision.step is not RevertStep.WAIT:
                    due.append((rollout, decision))
            return snapshot.index, due

    async def _act(self, rollout: Rollout, decision: RevertDecision) -> None:
        outcome = decision.reason
        if decision.step is RevertStep.REVERT:
            outcome = await self._taken_back(rollout, decision.reason)
        with self._context.snapshot() as snapshot:
            latest = snapshot.rollouts.get(rollout.id)
        if latest is None or latest.gates is None:
            return
        gates = replace(latest.gates, health_outcome=outcome)
        description = f"{latest.status_description}; {outcome}"
        marked = replace(latest, gates=gates, status_description=description)
        await record_rollout(self._context, marked)
        _log.warning("health gate", source=rollout.source, rollout=rollout.id, outcome=outcome)

    async def _taken_back(self, rollout: Rollout, reason: str) -> str:
        """Reverts the rollout. Returns what was done, or why it cannot be. Raises OrchgitError for
        what may pass."""
        try:
            request = RollbackRequest(by=WHO, reason=reason[:MAX_REASON])
            revert = await self._revert(rollout.id, request)
        except (JobFileError, ConflictError) as error:
            return f"cannot go back ({reason}): {error}"
        back = rollout.previous_commit[:8]
        return f"went back to commit {back} by rollout {revert.id[:8]}, as {reason}"
