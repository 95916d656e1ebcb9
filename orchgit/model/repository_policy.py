"""What a repository's `orchgit.hcl` says: order, hooks, windows, gates and deletions.

The file narrows what the source's settings allow and never widens it. Each part carries its line
and column in the file, for messages.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from msgspec import field
from msgspec.structs import replace

from orchgit.model.base import Model

T = TypeVar("T")

POLICY_PATH = "orchgit.hcl"
"""Where the file is: at the root of the tree, and nowhere else."""


class WaitCondition(StrEnum):
    """When a job that another one depends on lets the other one go on.

    `HEALTHY`: all of its work runs, and its deployment is successful. `COMPLETE`: all of its work
    is done, for batch jobs that run once. `REGISTERED`: its registration is in the log.
    """

    HEALTHY = "healthy"
    COMPLETE = "complete"
    REGISTERED = "registered"


class HookStage(StrEnum):
    """`PRE`: every other job waits until the hook is complete. `POST`: the hook runs when every
    other job is healthy."""

    PRE = "pre"
    POST = "post"


class HookRun(StrEnum):
    """When a commit runs the hook: when the hook's job changed, or always."""

    ON_CHANGE = "on_change"
    EACH_COMMIT = "each_commit"


class JobDependency(Model):
    """A job to wait for: its id, or `namespace/id`. `condition` '' stands for `complete` if it is a
    batch job that runs once, for `healthy` otherwise."""

    job: str
    condition: str = ""
    line: int = 0
    column: int = 0


class JobRule(Model):
    """A `job "ID"` block. `job` is the job's id, or `namespace/id`."""

    job: str
    depends_on: list[JobDependency] = []
    line: int = 0
    column: int = 0


class Hook(Model):
    """A `hook "NAME"` block: a batch job that gates the others."""

    name: str
    stage: str
    job: str
    run: str = HookRun.ON_CHANGE
    line: int = 0
    column: int = 0


class WindowRule(Model):
    """A `window "NAME"` block: a span of time that begins at each match of `cron`, in `time_zone`.
    `action` says whether commits may be applied within it."""

    name: str
    action: str
    cron: str
    duration_ns: int
    time_zone: str = "UTC"
    line: int = 0
    column: int = 0


class GateRule(Model):
    """The `gate` block. None: the file does not say."""

    health: str | None = None
    deadline_ns: int | None = None
    require_fit: bool | None = None
    approvals: int | None = None
    line: int = 0
    column: int = 0


class PruneRule(Model):
    """The `prune` block. None: the file does not say."""

    enabled: bool | None = None
    max_share_percent: int | None = None
    line: int = 0
    column: int = 0


class SourceDependency(Model):
    """A source named in `depends_on_sources`."""

    name: str
    line: int = 0
    column: int = 0


class RepositoryPolicy(Model):
    """A repository's `orchgit.hcl`. A repository without the file has an empty policy.

    `sources` has what the file says of one source alone, by its name, beside what it says of all
    sources of the repository.
    """

    jobs: list[JobRule] = []
    depends_on_sources: list[SourceDependency] = []
    hooks: list[Hook] = []
    windows: list[WindowRule] = []
    gate: GateRule = field(default_factory=GateRule)
    prune: PruneRule = field(default_factory=PruneRule)
    sources: dict[str, RepositoryPolicy] = {}

    def of_source(self, name: str) -> RepositoryPolicy:
        """Returns what the file says of one source: of two limits for it, the stricter one."""
        own = self.sources.get(name)
        if own is None:
            return replace(self, sources={})
        return RepositoryPolicy(
            jobs=[*self.jobs, *own.jobs],
            depends_on_sources=[*self.depends_on_sources, *own.depends_on_sources],
            hooks=[*self.hooks, *own.hooks],
            windows=[*self.windows, *own.windows],
            gate=GateRule(
                health=_stricter(max, self.gate.health, own.gate.health),
                deadline_ns=_stricter(min, self.gate.deadline_ns, own.gate.deadline_ns),
                require_fit=_stricter(max, self.gate.require_fit, own.gate.require_fit),
                approvals=_stricter(max, self.gate.approvals, own.gate.approvals),
                line=own.gate.line or self.gate.line,
                column=own.gate.column or self.gate.column,
            ),
            prune=PruneRule(
                enabled=_stricter(min, self.prune.enabled, own.prune.enabled),
                max_share_percent=_stricter(
                    min, self.prune.max_share_percent, own.prune.max_share_percent
                ),
                line=own.prune.line or self.prune.line,
                column=own.prune.column or self.prune.column,
            ),
        )


def _stricter(choose: Callable[..., T], one: T | None, other: T | None) -> T | None:
    """Returns the value that is given, or the stricter one of two. By alphabet, `revert` comes
    after `report`."""
    given = [value for value in (one, other) if value is not None]
    return choose(given) if given else None
