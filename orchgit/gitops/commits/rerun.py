"""Running jobs of the applied commit again because a person asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchgit.errors import ConflictError, NotFoundError
from orchgit.gitops.commits.plan import Trigger
from orchgit.gitops.commits.plan_request import PlanRequest
from orchgit.gitops.commits.services import CommitServices
from orchgit.gitops.parsing.desired import JobKey
from orchgit.model.job import JobStatus
from orchgit.model.ownership import owner_of, runs_once
from orchgit.model.rollout import Rollout
from orchgit.services.gitops.pauses import pause_text
from orchgit.services.jobs.deregister import DeregisterOptions, deregister_job


@dataclass(frozen=True, slots=True)
class Rerunner:
    """Runs jobs again for any source."""

    services: CommitServices

    async def rerun(self, source_name: str, keys: Sequence[JobKey]) -> Rollout:
        """Creates these jobs again in one rollout of the applied commit, and changes nothing else.

        A job that is complete and still registered is stopped first. Raises NotFoundError for a
        source or job that does not exist, and ConflictError for a job that cannot be created.
        """
        applier = self.services.applier
        applier.source(source_name)
        mirror, cache = self.services.mirrors.get(source_name), self.services.caches.of(source_name)
        await self.services.synchronizer.wait_until_current(source_name)
        async with mirror.lock:
            source = applier.source(source_name)
            commit_id = source.status.applied_commit
            if source.paused:
                raise ConflictError(
                    f"cannot run jobs of source {source.name!r} again: it is {pause_text(source)}; "
                    f"go on with `orchgit source resume {source.name}`"
                )
            if not commit_id:
                raise ConflictError(
                    f"cannot run jobs of source {source.name!r} again: no commit of it was applied "
                    "yet"
                )
            read = await applier.read(mirror.open(), commit_id, source, cache)
            for namespace, job_id in keys:
                if (namespace, job_id) not in read.discovery.jobs:
                    raise NotFoundError(
                        f"cannot run job {job_id!r} again: the applied commit of source "
                        f"{source.name!r} has no such job in namespace {namespace!r}"
                    )
            complete = [key for key in keys if self._is_registered_and_complete(source.name, key)]
            for namespace, job_id in complete:
                await deregister_job(self.services.context, namespace, job_id, DeregisterOptions())
            plan = await applier.plan(read, source.name, cache, PlanRequest(frozenset(keys)))
            read.refuse_problems(plan)
            return await applier.apply(read, plan, Trigger("api"), cache)

    def _is_registered_and_complete(self, source_name: str, key: JobKey) -> bool:
        """Raises ConflictError for a registered job that cannot run again."""
        namespace, job_id = key
        with self.services.context.snapshot() as snapshot:
            job = snapshot.jobs.get(namespace, job_id)
        if job is None or job.stop:
            return False
        if owner_of(job) != source_name:
            raise ConflictError(
                f"cannot run job {job_id!r} again: source {source_name!r} does not manage it"
            )
        if not runs_once(job):
            raise ConflictError(
                f"cannot run job {job_id!r} again: it is registered and does not end by itself"
            )
        if job.status != JobStatus.DEAD:
            raise ConflictError(
                f"cannot run job {job_id!r} again: it is {job.status}; end it with "
                f"`orchgit job stop {job_id}`"
            )
        return True
