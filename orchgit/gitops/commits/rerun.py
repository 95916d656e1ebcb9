"""Running jobs of the applied commit again because a person asks for it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from orchgit.errors import ConflictError, NotFoundError
from orchgit.gitops.commits.applier import CommitApplier, SourceCache, refuse_problems
from orchgit.gitops.commits.plan import Trigger
from orchgit.gitops.mirrors.mirror import Mirror
from orchgit.gitops.parsing.discovery import JobKey
from orchgit.model.job import Job, JobStatus
from orchgit.model.ownership import owner_of, runs_once
from orchgit.model.rollout import Rollout
from orchgit.model.source import Source
from orchgit.services.context import UseCaseContext
from orchgit.services.jobs.deregister import DeregisterOptions, deregister_job


@dataclass(frozen=True, slots=True)
class Rerunner:
    context: UseCaseContext
    applier: CommitApplier

    async def rerun(self, keys: Sequence[JobKey], mirror: Mirror, memory: SourceCache) -> Rollout:
        """One rollout of the applied commit that creates these jobs and changes nothing else. A job
        that is complete and still registered is stopped first. Raises NotFoundError for a job that
        the commit does not have, and ConflictError for one that cannot be created."""
        async with mirror.lock:
            source = self.applier.source(mirror.name)
            commit_id = _applied_commit(source)
            read = await self.applier.read(mirror.open(), commit_id, source, memory)
            over = [key for key in keys if self._is_finished(source, key, read.discovery.jobs)]
            for namespace, job_id in over:
                await deregister_job(self.context, namespace, job_id, DeregisterOptions())
            plan = await self.applier.plan(read, source.name, memory, frozenset(keys))
            refuse_problems(plan, read)
            return await self.applier.apply(read, plan, Trigger("api"), memory)

    def _is_finished(self, source: Source, key: JobKey, desired: Collection[JobKey]) -> bool:
        """Whether the job is complete and registered. Raises for one that cannot run again."""
        namespace, job_id = key
        if key not in desired:
            raise NotFoundError(
                f"cannot run job {job_id!r} again: the applied commit of source {source.name!r} "
                f"has no such job in namespace {namespace!r}"
            )
        with self.context.snapshot() as snapshot:
            job = snapshot.jobs.get(namespace, job_id)
        if job is None or job.stop:
            return False
        if owner_of(job) != source.name:
            raise ConflictError(
                f"cannot run job {job_id!r} again: source {source.name!r} does not manage it"
            )
        return _is_over(job)


def _applied_commit(source: Source) -> str:
    if source.paused:
        raise ConflictError(
            f"cannot run jobs of source {source.name!r} again: it is paused; go on with "
            f"`orchgit source resume {source.name}`"
        )
    if not source.status.applied_commit:
        raise ConflictError(
            f"cannot run jobs of source {source.name!r} again: no commit of it was applied yet"
        )
    return source.status.applied_commit


def _is_over(job: Job) -> bool:
    if not runs_once(job):
        raise ConflictError(
            f"cannot run job {job.id!r} again: it is registered and does not end by itself"
        )
    if job.status != JobStatus.DEAD:
        raise ConflictError(
            f"cannot run job {job.id!r} again: it is {job.status}; end it with "
            f"`orchgit job stop {job.id}`"
        )
    return True
