"""What a plan follows beyond the commit itself: what a person or the loop that corrects drift asks
for, and what the source may change."""

from __future__ import annotations

from dataclasses import dataclass

from orchgit.acl.rights import MANAGEMENT, Rights
from orchgit.gitops.parsing.desired import JobKey
from orchgit.model.held_version import HeldVersion


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """The plan changes only `jobs`, if there are any, though they have run before, or are held.

    `hold` are versions that going back takes back, and that are held from then on; what replaces
    them is applied even if it is held. `is_revert`: a person goes back. With `only`, every other
    job stays as it is. `rights` are those of the source's policies when the plan is made.
    """

    jobs: frozenset[JobKey] = frozenset()
    hold: tuple[HeldVersion, ...] = ()
    is_revert: bool = False
    only: frozenset[JobKey] | None = None
    rights: Rights = MANAGEMENT

    @property
    def asked(self) -> frozenset[JobKey] | None:
        """The only jobs that the plan looks at; None: all of them."""
        return self.only if self.only is not None else self.jobs or None

    def applies(self, held: HeldVersion) -> bool:
        """Returns whether the held version is applied because the person asks for it."""
        return held.key in self.jobs or any(held.key == each.key for each in self.hold)


NO_REQUEST = PlanRequest()
"""Only the commit is applied."""
