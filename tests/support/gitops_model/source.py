"""A source as people set it, and where it is."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.gitops_model.facts import Files


@dataclass(eq=False)
class ModelCommit:
    """A commit of a branch. `id` is '' for one that the server makes, until it is seen."""

    files: Files = field(repr=False)
    id: str = ""
    parent: ModelCommit | None = field(default=None, repr=False)

    def ancestors(self) -> list[ModelCommit]:
        """Newest first, without the commit itself."""
        found, each = [], self.parent
        while each is not None:
            found.append(each)
            each = each.parent
        return found


@dataclass
class ModelBranch:
    """The branch of a built-in repository, which stays when its source is removed."""

    head: ModelCommit | None = None


@dataclass
class Waiting:
    """A commit that waits at its gates. `approved` names the plan that a person approved."""

    commit: ModelCommit
    approved: object = None
    is_overridden: bool = False


@dataclass(kw_only=True)
class Settings:
    """What people set of a source. `window_is_open` is False while its windows deny commits."""

    tag: str = ""
    paused: bool = False
    adopt: bool = False
    drift: str = "report"
    window_is_open: bool = True
    needs_approval: bool = False
    goes_back: bool = False
    """Whether a commit that fails goes back whole: the health gate."""


@dataclass
class ModelSource:
    """One source that follows a built-in repository of its own."""

    name: str
    settings: Settings
    branch: ModelBranch
    applied: ModelCommit | None = None
    previous: ModelCommit | None = None
    """The commit that the newest rollout replaced: the applied one if it only ran jobs again."""
    was_applied: list[ModelCommit] = field(default_factory=list)
    waiting: Waiting | None = None
    quarantined: list[ModelCommit] = field(default_factory=list)
    under_way: list[dict[str, int]] = field(default_factory=list)
    """Of each rollout that is not the healing of drift: versions by the names of its jobs."""

    @property
    def applied_files(self) -> Files:
        return self.applied.files if self.applied is not None else {}
