"""Deployments: status, promotion, health."""

from __future__ import annotations

from typing import ClassVar

from orchgit.model.deployment import DeploymentStatusUpdate
from orchgit.model.evaluation import Evaluation
from orchgit.model.job import Job
from orchgit.replication.commands.entry import Entry


class UpdateDeploymentStatus(Entry, tag="update-deployment-status", kw_only=True):
    """`job` is the version to run again, for an automatic revert."""

    update: DeploymentStatusUpdate
    job: Job | None = None
    evaluation: Evaluation | None = None


class ResumeDeployment(Entry, tag="resume-deployment", kw_only=True):
    """A paused deployment goes on; its progress deadlines begin anew."""

    since: ClassVar[int] = 2

    deployment_id: str
    evaluation: Evaluation | None = None


class FailDeployment(Entry, tag="fail-deployment", kw_only=True):
    """`job` is the version to run again, unless the job is not at `expected_modify_index` any more:
    then nothing happens at all."""

    since: ClassVar[int] = 2

    update: DeploymentStatusUpdate
    job: Job | None = None
    expected_modify_index: int | None = None
    evaluation: Evaluation | None = None


class PromoteDeployment(Entry, tag="promote-deployment", kw_only=True):
    """`groups` empty: all of them."""

    deployment_id: str
    groups: list[str] = []
    evaluation: Evaluation | None = None


class SetDeploymentHealth(Entry, tag="set-deployment-health", kw_only=True):
    """Health judged by a person or by the watcher; may end the deployment in the same entry."""

    deployment_id: str
    healthy_alloc_ids: list[str] = []
    unhealthy_alloc_ids: list[str] = []
    update: DeploymentStatusUpdate | None = None
    job: Job | None = None
    evaluation: Evaluation | None = None


class DeleteDeployments(Entry, tag="delete-deployments", kw_only=True):
    ids: list[str]


DeploymentCommand = (
    UpdateDeploymentStatus
    | ResumeDeployment
    | FailDeployment
    | PromoteDeployment
    | SetDeploymentHealth
    | DeleteDeployments
)
