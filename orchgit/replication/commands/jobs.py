"""Registering, stopping and tagging jobs, and what is recorded of them."""

from __future__ import annotations

from typing import ClassVar

from orchgit.model.base import Model
from orchgit.model.evaluation import Evaluation
from orchgit.model.job import ChangedBy, Job, JobSubmission
from orchgit.model.scaling import ScalingEvent
from orchgit.replication.commands.entry import Entry


class JobUpsert(Model):
    """`expected_modify_index`: None: unconditional; 0: must be new; else its JobModifyIndex."""

    job: Job
    submission: JobSubmission | None = None
    expected_modify_index: int | None = None


class JobDeletion(Model):
    namespace: str
    job_id: str
    purge: bool = False
    expected_modify_index: int | None = None


class RegisterJob(Entry, tag="register-job", kw_only=True):
    """One job registered over the API. Unchanged specs create no new version."""

    upsert: JobUpsert
    evaluation: Evaluation | None = None


class DeregisterJob(Entry, tag="deregister-job", kw_only=True):
    deletion: JobDeletion
    evaluation: Evaluation | None = None


class ChangeJob(Entry, tag="change-job", kw_only=True):
    """As `RegisterJob`, of a job that a source owns; the job's origin says who did it."""

    since: ClassVar[int] = 4

    upsert: JobUpsert
    changed_by: ChangedBy
    evaluation: Evaluation | None = None


class StopJob(Entry, tag="stop-job", kw_only=True):
    """As `DeregisterJob`, of a job that a source owns; the job's origin, or, of a purged job, its
    drift says who did it."""

    since: ClassVar[int] = 4

    deletion: JobDeletion
    changed_by: ChangedBy
    evaluation: Evaluation | None = None


class SetJobStability(Entry, tag="set-job-stability", kw_only=True):
    namespace: str
    job_id: str
    version: int
    stable: bool


class SetJobVersionTag(Entry, tag="set-job-version-tag", kw_only=True):
    """Gives a version a tag; a version of another number with this tag is a refusal.

    `version` None is the current one.
    """

    since: ClassVar[int] = 5

    namespace: str
    job_id: str
    version: int | None
    name: str
    description: str = ""


class DeleteJobVersionTag(Entry, tag="delete-job-version-tag", kw_only=True):
    since: ClassVar[int] = 5

    namespace: str
    job_id: str
    name: str


class RecordScalingEvent(Entry, tag="record-scaling-event", kw_only=True):
    since: ClassVar[int] = 5

    namespace: str
    job_id: str
    group: str
    event: ScalingEvent


class RecordPeriodicLaunch(Entry, tag="record-periodic-launch", kw_only=True):
    namespace: str
    job_id: str
    launch_time_ns: int


JobCommand = (
    RegisterJob
    | DeregisterJob
    | ChangeJob
    | StopJob
    | SetJobStability
    | SetJobVersionTag
    | DeleteJobVersionTag
    | RecordScalingEvent
    | RecordPeriodicLaunch
)
