"""What a repository's `orchgit.hcl` says: order, hooks, windows, gates and deletions.

The file narrows what the source's settings allow and never widens it. Each part carries its line
and column in the file, for messages.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import field

from orchgit.model.base import Model

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
    """A repository's `orchgit.hcl`. A repository without the file has an empty policy."""

    jobs: list[JobRule] = []
    depends_on_sources: list[SourceDependency] = []
    hooks: list[Hook] = []
    windows: list[WindowRule] = []
    gate: GateRule = field(default_factory=GateRule)
    prune: PruneRule = field(default_factory=PruneRule)
