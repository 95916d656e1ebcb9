"""What a failed deployment goes back to. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchgit.jobdiff.spec import same_spec
from orchgit.model.deployment import Deployment
from orchgit.model.job import Job
from orchgit.model.ownership import with_owner_of

ROLLING_BACK = "rolling back to job version"
"""In the status description of a deployment whose failure reverted its job."""


@dataclass(frozen=True, slots=True)
class AutoRevert:
    """`job` None: nothing is gone back to, and `description` says why if that was wanted."""

    description: str
    job: Job | None = None


def auto_revert(
    deployment: Deployment, reason: str, wanted: bool, versions: Sequence[Job]
) -> AutoRevert:
    """The deployment fails for `reason`; `wanted`: a group reverts by itself.

    `versions` are the job's, newest first. A job that was changed since is left as it is: somebody
    has gone on from the version that fails.
    """
    current = versions[0] if versions else None
    if not wanted or current is None or not _is_of(deployment, current):
        return AutoRevert(reason)
    target = next((job for job in versions if job.stable), None)
    if target is None:
        return AutoRevert(f"{reason} - no stable job version to auto revert to")
    if target.version == current.version or same_spec(target, current):
        return AutoRevert(
            f"{reason} - not rolling back to stable job version {target.version} "
            "as current job has same specification"
        )
    return AutoRevert(f"{reason} - {ROLLING_BACK} {target.version}", with_owner_of(target, current))


def _is_of(deployment: Deployment, job: Job) -> bool:
    version = (deployment.job_create_index, deployment.job_version)
    return version == (job.create_index, job.version)
