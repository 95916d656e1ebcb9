"""A gitops source: a repository of job files that the cluster follows."""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import field

from orchgit.model.base import Model
from orchgit.model.gates import GatePolicy

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?")


def is_source_name(text: str) -> bool:
    """Whether the text is 1-64 lower-case letters, digits and inner dashes: safe in paths and
    URLs."""
    return _NAME.fullmatch(text) is not None


class SourceKind(StrEnum):
    BUILTIN = "builtin"
    REMOTE = "remote"
    LOCAL = "local"


class ClaimDeletion(StrEnum):
    """Whether a commit may delete a job that owns volume claims; from strict to lenient."""

    REFUSED = "refused"
    NAMED = "named"
    ALLOWED = "allowed"


class PrunePolicy(Model):
    """Which deletions a commit may cause.

    Without a trailer a commit deletes at most `max_share_percent` of the source's jobs. A trailer
    `Orchgit-Delete: <job>` allows the deletion of one job; with `wildcard`, one of `*` or
    `<namespace>/*` allows that of many. A job that owns volume claims is deleted if a trailer names
    the job itself, never, or as any other job: see `claims`.
    """

    enabled: bool = True
    max_share_percent: int = 50
    wildcard: bool = False
    claims: str = ClaimDeletion.NAMED


class DriftAction(StrEnum):
    REPORT = "report"
    HEAL = "heal"
    ADOPT = "adopt"


class DriftPolicy(Model):
    """What becomes of jobs that were changed by hand.

    `action` is report, heal (the applied commit's version runs again) or adopt (the change is
    written to the job's file). Differences at the paths of `ignore` are no drift: globs of dotted
    paths such as `group.*.count`. `delay_ns` passes before a job is healed or adopted.
    """

    action: str = DriftAction.REPORT
    ignore: list[str] = []
    delay_ns: int = 5_000_000_000


class TagPolicy(Model):
    """Which tags a `ref` of `semver:<range>` looks at: those that begin with `prefix`, and versions
    with a pre-release part only where `prereleases` says so."""

    prefix: str = ""
    prereleases: bool = False


class PauseRecord(Model):
    """Who last paused or resumed a source, when and why. The name is the one that the client gave.

    A paused source resumes by itself at `until_ns`; 0: it waits for a person.
    """

    by: str = ""
    reason: str = ""
    at_ns: int = 0
    until_ns: int = 0


class SourceErrorKind(StrEnum):
    """What the last error of a source keeps it from."""

    NONE = ""
    UNREACHABLE = "unreachable"
    """Learning the remote's commit."""
    HELD = "held"
    """Applying the remote's commit."""


class SourceStatus(Model):
    """What the reconciler last saw; only log entries about the source change it."""

    applied_commit: str = ""
    applied_rollout: str = ""
    seen_commit: str = ""
    last_error: str = ""
    last_checked_ns: int = 0
    quarantined: list[str] = []
    """Commits that were reverted; they are not applied again unless a person asks for it."""
    remembers_jobs: bool = False
    """Whether every job that runs once and was applied has its `AppliedJob`."""
    error_kind: str = SourceErrorKind.NONE
    error_since_ns: int = 0
    """When the first of the errors in a row was recorded; 0: there is no error."""
    last_success_ns: int = 0
    """When a round last ended without an error, as far as it was known at the last record."""


class GitRef(Model):
    """A branch, tag or note of a built-in repository: `name` is the full name of the ref, `source`
    is the name of the repository."""

    source: str
    name: str
    object_id: str
    create_index: int = 0
    modify_index: int = 0

    @property
    def id(self) -> str:
        """Unique in the cluster: neither the name of a source nor that of a ref has a colon."""
        return f"{self.source}:{self.name}"


class AppliedJob(Model):
    """A job that runs once, as a source last applied it; the job itself may be collected since.

    `content_id` identifies the file and all that it was read with, `spec_id` the resulting job.
    `source` is empty when the source was removed.
    """

    namespace: str
    job_id: str
    source: str
    content_id: str
    spec_id: str
    create_index: int = 0
    modify_index: int = 0

    @property
    def id(self) -> str:
        """Unique in the cluster: a namespace has no slash."""
        return f"{self.namespace}/{self.job_id}"


DEFAULT_PATHS = ("**/*.nomad.hcl", "**/*.nomad", "**/*.nomad.json", "**/*.hcl")


EVERY_RIGHT = "*"
"""In a source's `policies`: the rights of a management token."""


class Source(Model):
    """`url` is empty for the built-in remote; `paths` are globs inside the tree, less those that
    match `exclude`."""

    name: str = ""
    namespace: str = "default"
    kind: str = SourceKind.BUILTIN
    url: str = ""
    ref: str = "refs/heads/main"
    paths: list[str] = field(default_factory=lambda: list(DEFAULT_PATHS))
    variables: dict[str, str] = {}
    var_files: list[str] = []
    poll_interval_ns: int = 15_000_000_000
    prune: PrunePolicy = field(default_factory=PrunePolicy)
    paused: bool = False
    credential: str = ""
    """Name of a credential in the server's config; never the secret itself."""
    webhook_secret: str = ""
    """Name of a secret in the server's config; never the secret itself."""
    allow_rewind: bool = False
    """Whether a commit that does not descend from the applied one may be applied."""
    adopt: bool = False
    """Whether the source takes over jobs of removed sources for which it has a file."""
    rollout_deadline_ns: int = 0
    """How long a job of a rollout may make no progress; 0: as the job's own deadlines say."""
    drift: DriftPolicy = field(default_factory=DriftPolicy)
    exclude: list[str] = []
    region: str = ""
    """The region of jobs that name none; only the server's own is accepted. '': the server's."""
    tags: TagPolicy = field(default_factory=TagPolicy)
    repository: str = ""
    """Name of the built-in repository; several sources may follow one. '': the source's name."""
    ca_certificates: str = ""
    """PEM of the authorities that sign the remote's certificate; '': those of the machine."""
    depends_on: list[str] = []
    """Sources that must be healthy at their newest commit before one of this source is applied."""
    pause: PauseRecord = field(default_factory=PauseRecord)
    """Kept by the server: how `paused` came to be what it is."""
    status: SourceStatus = field(default_factory=SourceStatus)
    create_index: int = 0
    modify_index: int = 0
    gates: GatePolicy = field(default_factory=GatePolicy)
    """What a commit waits for before it is applied, and what happens if it fails."""
    policies: list[str] = []
    """Names of the policies with whose rights the source applies commits, while access control is
    on; `EVERY_RIGHT` stands for all rights."""

    @property
    def repository_name(self) -> str:
        """The name of the source's mirror, and of its built-in repository."""
        return self.repository or self.name
