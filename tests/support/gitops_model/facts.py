"""What the model says about a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.support.simulated_server import RUNS, JobContent

Files = Mapping[str, JobContent]
"""The job files of a commit, by the name of the job."""


@dataclass(frozen=True)
class JobKind:
    """`is_scaled`: the group has a scaling policy, so its count belongs to the one who scales."""

    type: str
    auto_revert: bool = False
    is_scaled: bool = False

    @property
    def runs_once(self) -> bool:
        return self.type == "batch"

    @property
    def is_judged(self) -> bool:
        """Whether a failure of its first allocations fails the commit."""
        return self.type != "periodic"


@dataclass(frozen=True)
class Spec:
    """What a registered job is: all of a file but its comments, and the source's variable."""

    number: int
    does: str = RUNS
    count: int = 1
    tag: str = ""


DELETION = Spec(0)
"""Stands for a commit without the job's file."""


def spec_of_content(content: JobContent | None, tag: str) -> Spec:
    if content is None:
        return DELETION
    return Spec(content.number, content.does, content.count, tag)


def is_same_content(one: JobContent | None, other: JobContent | None) -> bool:
    """Whether two files mean the same job; None: there is no file."""
    return spec_of_content(one, "") == spec_of_content(other, "")


@dataclass(frozen=True)
class Registered:
    """A job as it must be registered.

    `version` tells its versions apart. `stable` is the newest version that became healthy; `why`
    tells a person who reads a failed test where the version comes from, and `made_by` who made it:
    a source's name, `HAND` or `AUTO_REVERT`. `released_from` and `former_owner` are sources.
    """

    spec: Spec
    owner: str
    why: str
    version: int = 0
    made_by: str = ""
    stopped: bool = False
    released_from: str = ""
    former_owner: str = ""
    stable: Spec | None = None

    @property
    def live(self) -> bool:
        return not self.stopped


HAND = "hand"
AUTO_REVERT = "auto-revert"


@dataclass(frozen=True)
class Held:
    """A version that failed, or that was taken back, and the source that holds it; '' after that
    source was removed. No commit applies it until one changes the file."""

    spec: Spec
    source: str


@dataclass(frozen=True)
class Ran:
    """A job that runs once, as a source last applied it."""

    content: JobContent
    tag: str
    source: str
