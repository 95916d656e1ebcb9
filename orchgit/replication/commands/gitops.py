"""Sources, their refs and their rollouts."""

from __future__ import annotations

from typing import ClassVar

from orchgit.model.base import Model
from orchgit.model.evaluation import Evaluation
from orchgit.model.held_version import HeldVersion
from orchgit.model.rollout import Rollout
from orchgit.model.source import AppliedJob, Source, SourceStatus
from orchgit.model.source_health import SourceHealthChange
from orchgit.replication.commands.entry import Entry
from orchgit.replication.commands.jobs import JobDeletion, JobUpsert


class RefMove(Model):
    """A ref of a built-in repository moves from `old` to `new`; "" stands for "is not there"."""

    ref: str
    old: str = ""
    new: str = ""


class UpsertSource(Entry, tag="upsert-source", kw_only=True):
    """Create or change a source's settings; its status is kept."""

    source: Source


class StoreSource(Entry, tag="store-source", kw_only=True):
    """Create a source (`expected_modify_index` 0), or change the settings of the one that was read
    with that modify index; its kind does not change, and its status is kept."""

    since: ClassVar[int] = 3

    source: Source
    expected_modify_index: int


class PutSource(Entry, tag="put-source", kw_only=True):
    """As `StoreSource`, with every setting that a source has since version 4 of the log's language.
    `expected_modify_index` None: unconditional, for a source of the configuration."""

    since: ClassVar[int] = 4

    source: Source
    expected_modify_index: int | None = None


class DefineSource(Entry, tag="define-source", kw_only=True):
    """As `PutSource`, with every setting that a source has since version 5."""

    since: ClassVar[int] = 5

    source: Source
    expected_modify_index: int | None = None


class UpdateSourceStatus(Entry, tag="update-source-status", kw_only=True):
    """Record what the reconciler saw; never moves `applied_commit` (ApplyRollout does)."""

    name: str
    status: SourceStatus


class SetSourceStatus(Entry, tag="set-source-status", kw_only=True):
    """As `UpdateSourceStatus`, with every field that a status has since version 4."""

    since: ClassVar[int] = 4

    name: str
    status: SourceStatus


class RecordSourceHealth(Entry, tag="record-source-health", kw_only=True):
    """Store the health of sources that got another one. Sources that were removed meanwhile are
    passed over; when each got its health, and what it had before, is set here."""

    since: ClassVar[int] = 5

    changes: list[SourceHealthChange]


class SetJobOwner(Entry, tag="set-job-owner", kw_only=True):
    """Release a job from `expected_source` (`source` empty), or give it back to `source`. Makes no
    version of the job."""

    since: ClassVar[int] = 3

    namespace: str
    job_id: str
    source: str = ""
    released_from: str = ""
    expected_source: str = ""


class RenameSource(Entry, tag="rename-source", kw_only=True):
    """The source, its jobs, their records and its history get another name of the source; nothing
    else changes. `released` are (namespace, job id) of the jobs that were released from it."""

    since: ClassVar[int] = 5

    name: str
    new_name: str
    released: list[tuple[str, str]] = []


class RemoveSource(Entry, tag="remove-source", kw_only=True):
    """Its jobs have no source then. `deletions` are jobs to stop, with their evaluations; what was
    remembered of the source's jobs is forgotten with `stop`."""

    since: ClassVar[int] = 3

    name: str
    stop: bool = False
    deletions: list[JobDeletion] = []
    evaluations: list[Evaluation] = []


class DeleteSource(Entry, tag="delete-source", kw_only=True):
    name: str


class MoveRefs(Entry, tag="move-refs", kw_only=True):
    """Move refs of a built-in repository, all of them or, if one is not at its `old`, none."""

    source: str
    moves: list[RefMove]


class ApplyRollout(Entry, tag="apply-rollout", kw_only=True):
    """One commit of one source, whole or not at all (invariant 9).

    Moves the source's applied commit and its branch, upserts and stops jobs, stores evaluations and
    the rollout. Upserts are applied before deletions.
    """

    rollout: Rollout
    expected_commit: str = ""
    """The source's applied commit the rollout was computed from; empty = none yet."""
    upserts: list[JobUpsert] = []
    deletions: list[JobDeletion] = []
    evaluations: list[Evaluation] = []
    ref_moves: list[RefMove] = []


class ApplyCommit(Entry, tag="apply-commit", kw_only=True):
    """`ApplyRollout`, which also remembers what was applied of the jobs that run once.

    `forget` are (namespace, job id) of those that the commit no longer has.
    """

    since: ClassVar[int] = 3

    rollout: Rollout
    expected_commit: str = ""
    upserts: list[JobUpsert] = []
    deletions: list[JobDeletion] = []
    evaluations: list[Evaluation] = []
    ref_moves: list[RefMove] = []
    remember: list[AppliedJob] = []
    forget: list[tuple[str, str]] = []


class ApplyStage(Entry, tag="apply-stage", kw_only=True):
    """One stage of a commit, whole or not at all (invariant 9); most commits have one stage.

    As `ApplyCommit`, with every field that a rollout has since version 4. `hold` and `unhold`
    change the held versions; `renew` are (namespace, job id) of jobs that get a new version though
    they are registered with the same spec. `expected_rollout_index`, if not 0, is the modify index
    of the rollout as it is recorded: it waited at its gates, or this is a later stage of it. When
    the applied commit moves, other rollouts of the source that wait at their gates are superseded.
    """

    since: ClassVar[int] = 4

    rollout: Rollout
    expected_commit: str = ""
    expected_rollout_index: int = 0
    upserts: list[JobUpsert] = []
    deletions: list[JobDeletion] = []
    evaluations: list[Evaluation] = []
    ref_moves: list[RefMove] = []
    remember: list[AppliedJob] = []
    forget: list[tuple[str, str]] = []
    hold: list[HeldVersion] = []
    unhold: list[tuple[str, str]] = []
    renew: list[tuple[str, str]] = []


class RecordGates(Entry, tag="record-gates", kw_only=True):
    """Record a rollout that waits at its gates, or that was rejected there.

    `expected_modify_index` is that of the rollout's record, 0 for a new one, and `expected_commit`
    the source's applied commit. Other rollouts of the source that wait are superseded, and the
    source does not apply the commit of a rejected one by itself.
    """

    since: ClassVar[int] = 4

    rollout: Rollout
    expected_modify_index: int = 0
    expected_commit: str = ""
    ref_moves: list[RefMove] = []


class RecordProgress(Entry, tag="record-progress", kw_only=True):
    """As `RecordRollout`, with every field that a rollout has since version 4, and only if the
    rollout is recorded with modify index `expected_modify_index`, where that is not 0.

    `hold` are versions that this rollout applied and that failed. One of a job that a later rollout
    of the source changed is left out.
    """

    since: ClassVar[int] = 4

    rollout: Rollout
    hold: list[HeldVersion] = []
    expected_modify_index: int = 0


class RecordRollout(Entry, tag="record-rollout", kw_only=True):
    """Store a rollout's new state (progress, or a refused commit) without touching any job."""

    rollout: Rollout


class DeleteRollouts(Entry, tag="delete-rollouts", kw_only=True):
    ids: list[str]


GitopsCommand = (
    UpsertSource
    | StoreSource
    | PutSource
    | DefineSource
    | UpdateSourceStatus
    | SetSourceStatus
    | RecordSourceHealth
    | SetJobOwner
    | RenameSource
    | RemoveSource
    | DeleteSource
    | MoveRefs
    | ApplyRollout
    | ApplyCommit
    | ApplyStage
    | RecordGates
    | RecordProgress
    | RecordRollout
    | DeleteRollouts
)
