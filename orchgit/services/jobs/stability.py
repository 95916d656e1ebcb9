"""Marks a job version as stable (a target of automatic reverts) or not."""

from __future__ import annotations

from orchgit.errors import RefusedError
from orchgit.replication.commands.jobs import SetJobStability
from orchgit.services.context import UseCaseContext


async def set_job_stability(
    context: UseCaseContext, namespace: str, job_id: str, version: int, stable: bool
) -> int:
    """Returns the index at which the mark was recorded."""
    with context.snapshot() as snapshot:
        known = snapshot.job_versions.get(namespace, job_id, version)
    if known is None:
        raise RefusedError(f'job "{job_id}" at version {version} not found')
    applied = await context.propose(
        SetJobStability(
            now_ns=context.now_ns(),
            namespace=namespace,
            job_id=job_id,
            version=version,
            stable=stable,
        )
    )
    return applied.index
