"""What persons decide about a rollout that waits at its gates: approve or reject it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from orchgit.errors import ConflictError, NotFoundError
from orchgit.gitops.gates.approvals import approved, checked_name, checked_reason
from orchgit.model.rollout import Rollout, RolloutStatus
from orchgit.services.context import UseCaseContext
from orchgit.services.gitops.rollouts import record_gates

_MAX_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Approver:
    """Records approvals and rejections. Both survive a change of the leader; the source's loop acts
    on them."""

    context: UseCaseContext

    async def approve(self, rollout_id: str, plan_hash: str, by: str) -> Rollout:
        """Records that a person approves exactly this plan. `plan_hash` may be its first 8 digits
        or more. Raises what `approved` does, and NotFoundError."""

        def change(rollout: Rollout) -> Rollout:
            return approved(rollout, by, plan_hash, self.context.now_ns())

        return await self._change(rollout_id, change)

    async def reject(self, rollout_id: str, reason: str, by: str) -> Rollout:
        """Ends a waiting rollout; its commit is not applied by itself any more."""
        name, why = checked_name(by, "reject a rollout"), checked_reason(reason, "reject a rollout")

        def change(rollout: Rollout) -> Rollout:
            if not rollout.is_waiting:
                raise ConflictError(
                    f"cannot reject rollout {rollout.id[:8]}: it is {rollout.status}, and does "
                    "not wait"
                )
            return replace(
                rollout,
                status=RolloutStatus.REJECTED,
                status_description=f"rejected by {name}: {why}",
                finished_time_ns=self.context.now_ns(),
            )

        return await self._change(rollout_id, change)

    async def _change(self, rollout_id: str, change: Callable[[Rollout], Rollout]) -> Rollout:
        """Stores what `change` makes of the rollout's newest record."""
        for _ in range(_MAX_ATTEMPTS):
            with self.context.snapshot() as snapshot:
                rollout = snapshot.rollouts.get(rollout_id)
                source = snapshot.sources.get(rollout.source) if rollout is not None else None
            if rollout is None or source is None:
                raise NotFoundError(
                    f"cannot find rollout {rollout_id}; `orchgit rollout list` shows them"
                )
            changed = change(rollout)
            try:
                index = await record_gates(self.context, changed, source.status.applied_commit)
            except ConflictError:
                continue
            return replace(changed, modify_index=index)
        raise ConflictError(
            f"cannot change rollout {rollout_id[:8]}: others keep changing it; try again"
        )
