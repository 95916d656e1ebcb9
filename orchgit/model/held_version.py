"""A held version: what a job file means that is not applied again by itself."""

from __future__ import annotations

from enum import StrEnum

from orchgit.model.base import Model


class HoldCause(StrEnum):
    """Why a version is held."""

    FAILED = "failed"
    """The job failed, and stayed registered."""
    AUTO_REVERTED = "auto_reverted"
    """The job failed, and its stable version runs again."""
    REVERTED = "reverted"
    """A person reverted the rollout, or went back to an earlier commit."""


class HeldVersion(Model):
    """A job's content that a source does not apply until the content changes or a person asks.

    `content_id` identifies the file and all that it was read with, `spec_id` the resulting job; a
    version is the held one if either is the same. Both are empty where what is held is the job's
    deletion: a commit without the file. `commit_id` and `rollout_id` are those that applied the
    content; `reason` is a clause without a subject ("failed its health check"). `source` is empty
    when the source was removed. A job has one held version at most.
    """

    namespace: str = "default"
    job_id: str = ""
    source: str = ""
    content_id: str = ""
    spec_id: str = ""
    commit_id: str = ""
    rollout_id: str = ""
    cause: str = HoldCause.FAILED
    reason: str = ""
    since_ns: int = 0
    wanted: bool = True
    """Whether the applied commit has this version, so that it is kept from the cluster now."""
    create_index: int = 0
    modify_index: int = 0

    @property
    def id(self) -> str:
        """Unique in the cluster: a namespace has no slash."""
        return f"{self.namespace}/{self.job_id}"

    @property
    def key(self) -> tuple[str, str]:
        """The job's identity: (namespace, job id)."""
        return (self.namespace, self.job_id)

    @property
    def is_deletion(self) -> bool:
        """Whether what is held is the deletion of the job."""
        return not self.spec_id
