"""Leave to apply one commit, as its gates gave it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from orchgit.errors import ConflictError
from orchgit.model.gates import RolloutGates
from orchgit.model.rollout import Rollout


class PlanChangedError(ConflictError):
    """What the gates decided on is not so any more: they have to decide again."""


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave to apply a commit.

    `record` is what its rollout keeps of the gates, `waiting` its rollout if it waited. With a
    `plan_hash` only the plan with that hash may be applied; `approved_hash` names what persons
    approved of it.
    """

    record: RolloutGates | None = None
    waiting: Rollout | None = None
    plan_hash: str = ""
    approved_hash: str = ""

    def stamped(self, rollout: Rollout) -> Rollout:
        """Returns the rollout to apply: the one that waited, if there is one."""
        plan_hash = self.approved_hash or rollout.plan_hash
        stamped = replace(rollout, gates=self.record, plan_hash=plan_hash)
        if self.waiting is None:
            return stamped
        return replace(
            stamped,
            id=self.waiting.id,
            trigger=self.waiting.trigger,
            pusher=self.waiting.pusher,
            create_time_ns=self.waiting.create_time_ns,
            modify_index=self.waiting.modify_index,
        )

    def check(self, plan_hash: str, latest: Rollout | None) -> None:
        """Raises PlanChangedError unless the permit still holds. `latest` is the record of the
        rollout that waited, as it is now."""
        if self.plan_hash not in ("", plan_hash):
            raise PlanChangedError("cannot apply the approved plan: the plan changed meanwhile")
        if self.waiting is not None and (
            latest is None or latest.modify_index != self.waiting.modify_index
        ):
            raise PlanChangedError(
                f"cannot apply rollout {self.waiting.id[:8]}: its record was changed meanwhile"
            )


FREE = Permit()
"""Leave for what no gate holds: a revert, or a job that a person runs again."""
