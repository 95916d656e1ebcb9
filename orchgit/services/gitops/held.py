"""Which held versions are kept from the cluster now, and which of them run all the same."""

from __future__ import annotations

from orchgit.model.held_version import HeldVersion
from orchgit.services.jobs.spec_id import spec_id_of
from orchgit.state.snapshot import StateReads


def kept_from_cluster(snapshot: StateReads, source: str) -> list[HeldVersion]:
    """Returns the versions that the source's applied commit has and that are not registered. One
    that failed and stayed registered is not among them: it may have become healthy since."""
    held = snapshot.held_versions.of_source(source)
    return [each for each in held if not _is_registered(snapshot, each)]


def _is_registered(snapshot: StateReads, held: HeldVersion) -> bool:
    job = snapshot.jobs.get(held.namespace, held.job_id)
    if job is None or job.stop:
        return held.is_deletion
    if held.is_deletion:
        return False
    # A count that was scaled since makes another digest, and leaves the origin as it was.
    is_of_rollout = job.origin is not None and job.origin.rollout_id == held.rollout_id
    return is_of_rollout or spec_id_of(job) == held.spec_id
