"""What a person asks of a plan beyond the commit itself."""

from __future__ import annotations

from dataclasses import dataclass

from orchgit.gitops.parsing.desired import JobKey
from orchgit.model.held_version import HeldVersion, HoldCause


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The plan changes only `jobs`, if there are any, though they have run before, or are held.

    `hold` are versions that a revert takes back, and that are held from then on. With `is_revert`
    versions that an earlier revert held are applied: the person goes back to them.
    """

    jobs: frozenset[JobKey] = frozenset()
    hold: tuple[HeldVersion, ...] = ()
    is_revert: bool = False

    def applies(self, held: HeldVersion) -> bool:
        """Returns whether the held version is applied because the person asks for it."""
        return held.key in self.jobs or (self.is_revert and held.cause == HoldCause.REVERTED)


NO_REQUEST = PlanRequest()
"""Only the commit is applied."""
