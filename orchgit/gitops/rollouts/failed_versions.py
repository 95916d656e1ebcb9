"""The versions of jobs that failed in a rollout, as the source holds them from then on. Pure."""

from __future__ import annotations

from orchgit.gitops.rollouts.health import JobProgress
from orchgit.model.held_version import HeldVersion, HoldCause
from orchgit.model.rollout import JobAction, Rollout, RolloutJob
from orchgit.services.jobs.spec_id import spec_id_of
from orchgit.state.snapshot import StateReads

_BAD = (JobProgress.FAILED, JobProgress.REVERTED)


def failed_versions(
    snapshot: StateReads, before: Rollout, after: Rollout, now_ns: int
) -> tuple[HeldVersion, ...]:
    """Returns the versions that failed between two judgements of one rollout. Deletions are none of
    them: a job that does not stop in time is stopped nevertheless."""
    known = {(job.namespace, job.job_id) for job in before.jobs if job.status in _BAD}
    found = []
    for job in after.jobs:
        is_new = job.status in _BAD and (job.namespace, job.job_id) not in known
        if not is_new or job.action == JobAction.DELETE:
            continue
        version = snapshot.job_versions.get(job.namespace, job.job_id, job.job_version)
        if version is not None:
            found.append(_failed(after, job, spec_id_of(version), now_ns))
    return tuple(found)


def _failed(rollout: Rollout, job: RolloutJob, spec_id: str, now_ns: int) -> HeldVersion:
    was_reverted = job.status == JobProgress.REVERTED
    why = f" ({job.description})" if job.description else ""
    return HeldVersion(
        namespace=job.namespace,
        job_id=job.job_id,
        source=rollout.source,
        content_id=job.content_id,
        spec_id=spec_id,
        commit_id=rollout.commit.id,
        rollout_id=rollout.id,
        cause=HoldCause.AUTO_REVERTED if was_reverted else HoldCause.FAILED,
        reason=f"failed its health check{why}",
        since_ns=now_ns,
    )
