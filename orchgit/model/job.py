"""A job: the content of a job file, plus the server's bookkeeping about it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import field

from orchgit.model.base import Model
from orchgit.model.constraint import Affinity, Constraint, Spread
from orchgit.model.group import TaskGroup, UpdateStrategy


class JobType(StrEnum):
    SERVICE = "service"
    BATCH = "batch"
    SYSTEM = "system"
    SYSBATCH = "sysbatch"


class JobStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    DEAD = "dead"


class PeriodicConfig(Model):
    enabled: bool = True
    spec: str = ""
    specs: list[str] | None = None
    spec_type: str = "cron"
    prohibit_overlap: bool = False
    time_zone: str = "UTC"


class ParameterizedJobConfig(Model):
    payload: str = "optional"
    meta_required: list[str] | None = None
    meta_optional: list[str] | None = None


class JobVersionTag(Model):
    name: str = ""
    description: str = ""
    tagged_time_ns: int = 0


class ChangedBy(Model):
    """Who changed a job by hand, as far as the server knows.

    `via` is register, scale, revert, stop or purge; `version` is the version of the job that the
    change made. `user` is the name that the client gave: nobody has checked it unless
    `is_verified`.
    """

    via: str = ""
    user: str = ""
    is_verified: bool = False
    address: str = ""
    """The address that the request came from."""
    client: str = ""
    """The program that sent the request, as it calls itself."""
    time_ns: int = 0
    version: int = 0

    @property
    def text(self) -> str:
        """Who it was, in words."""
        name = self.user or "unknown"
        claimed = " (claimed)" if self.user and not self.is_verified else ""
        return f"{name}{claimed}{f' from {self.address}' if self.address else ''}"


class JobOrigin(Model):
    """Which commit this version of a job came from.

    `source` is the job's owner: the source whose file says what the job is. A version registered
    by hand keeps its owner and has no commit.
    """

    source: str = ""
    released_from: str = ""
    """The source that a person released the job from; it leaves the job alone."""
    former_source: str = ""
    """The removed source that owned the job; another takes it over only with its `adopt`
    setting."""
    rollout_id: str = ""
    commit_id: str = ""
    author: str = ""
    subject: str = ""
    file: str = ""
    line: int = 0
    group_lines: dict[str, int] | None = None
    """The line of each group's block in the file; None where it is not known."""
    blob_id: str = ""
    changed_by: ChangedBy | None = None
    """Who last changed the job by hand. A version without a change by hand has none, or that of an
    earlier version."""


class Job(Model):
    """One version of a job. (`namespace`, `id`) is its identity; `version` counts changes."""

    id: str = ""
    name: str = ""
    namespace: str = "default"
    region: str = "global"
    type: str = JobType.SERVICE
    priority: int = 50
    all_at_once: bool = False
    datacenters: list[str] = field(default_factory=lambda: ["*"])
    node_pool: str = "default"
    task_groups: list[TaskGroup] = []
    constraints: list[Constraint] | None = None
    affinities: list[Affinity] | None = None
    spreads: list[Spread] | None = None
    update: UpdateStrategy | None = None
    periodic: PeriodicConfig | None = None
    parameterized_job: ParameterizedJobConfig | None = None
    multiregion: dict[str, object] | None = None
    parent_id: str = ""
    dispatched: bool = False
    dispatch_idempotency_token: str = ""
    payload: str | None = None
    meta: dict[str, str] | None = None
    ui: dict[str, object] | None = None
    consul_namespace: str = ""
    vault_namespace: str = ""
    nomad_token_id: str = ""
    version_tag: JobVersionTag | None = None
    origin: JobOrigin | None = None

    status: str = JobStatus.PENDING
    status_description: str = ""
    stop: bool = False
    stable: bool = False
    version: int = 0
    submit_time_ns: int = 0
    create_index: int = 0
    modify_index: int = 0
    job_modify_index: int = 0

    def group(self, name: str) -> TaskGroup | None:
        return next((group for group in self.task_groups if group.name == name), None)

    @property
    def is_periodic(self) -> bool:
        """Whether the job is a periodic parent, whose launches are child jobs."""
        return self.periodic is not None

    @property
    def is_parameterized(self) -> bool:
        """Whether the job is a parameterized parent, whose dispatches are child jobs."""
        return self.parameterized_job is not None and not self.dispatched


class GroupSummary(Model):
    queued: int = 0
    complete: int = 0
    failed: int = 0
    running: int = 0
    starting: int = 0
    lost: int = 0
    unknown: int = 0


class ChildrenSummary(Model):
    pending: int = 0
    running: int = 0
    dead: int = 0


class JobSummary(Model):
    """Counts of a job's allocations by group, derived from the tables when read."""

    job_id: str = ""
    namespace: str = "default"
    summary: dict[str, GroupSummary] = {}
    children: ChildrenSummary | None = None
    create_index: int = 0
    modify_index: int = 0


class JobSubmission(Model):
    """The text that a job version was registered from."""

    namespace: str = "default"
    job_id: str = ""
    version: int = 0
    source: str = ""
    format: str = "hcl2"
    variable_flags: dict[str, str] | None = None
    variables: str = ""
    job_modify_index: int = 0
