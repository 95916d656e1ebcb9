"""Runs an earlier version of a job again, as a new version."""

from __future__ import annotations

from orchgit.errors import RefusedError
from orchgit.model.job import ChangedBy
from orchgit.services.context import UseCaseContext
from orchgit.services.jobs.register import JobRegistration, RegisterOptions, register_job


async def revert_job(
    context: UseCaseContext,
    namespace: str,
    job_id: str,
    version: int,
    enforce_version: int | None = None,
    changed_by: ChangedBy | None = None,
) -> JobRegistration:
    """Registers the earlier version.

    With `enforce_version`, refuses unless that is the version that runs now.
    """
    with context.snapshot() as snapshot:
        current = snapshot.jobs.get(namespace, job_id)
        earlier = snapshot.job_versions.get(namespace, job_id, version)
        submission = snapshot.job_submissions.get(namespace, job_id, version)
    if current is None:
        raise RefusedError(f'job "{job_id}" not found')
    if enforce_version is not None and current.version != enforce_version:
        raise RefusedError(
            f"Current job has version {current.version}; enforcing version {enforce_version}"
        )
    if version == current.version and not current.stop:
        raise RefusedError("can't revert to current version")
    if earlier is None:
        raise RefusedError(
            f'job "{job_id}" in namespace "{namespace}" at version {version} not found'
        )
    options = RegisterOptions(
        enforce_index=current.job_modify_index, submission=submission, changed_by=changed_by
    )
    return await register_job(context, earlier, options)
