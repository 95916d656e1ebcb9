"""Applying jobs of the applied commit again because a person asks for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from dataclasses import replace as with_fields

from orchgit.errors import ConflictError, NotFoundError
from orchgit.gitops.commits.applier import ReadCommit
from orchgit.gitops.commits.plan import Trigger
from orchgit.gitops.commits.plan_request import PlanRequest
from orchgit.gitops.commits.services import CommitServices
from orchgit.gitops.commits.source_cache import SourceCache
from orchgit.gitops.parsing.desired import JobKey
from orchgit.model.job import JobStatus
from orchgit.model.ownership import owner_of, runs_once
from orchgit.model.rollout import Rollout
from orchgit.model.source import Source
from orchgit.services.gitops.pauses import pause_text
from orchgit.services.jobs.deregister import DeregisterOptions, deregister_job


@dataclass(frozen=True, slots=True)
class RetryRequest:
    """Which held versions a person wants applied again: those of `jobs`, or with `every` all that
    the source holds. `by` is the person."""

    jobs: Sequence[JobKey] = ()
    every: bool = False
    by: str = ""


@dataclass(frozen=True, slots=True)
class Rerunner:
    """Applies jobs again for any source. A job that is not asked for is not planned either: it may
    belong to another source by now, which would refuse the plan."""

    services: CommitServices

    async def rerun(self, source_name: str, keys: Sequence[JobKey], by: str = "") -> Rollout:
        """Creates these jobs again in one rollout of the applied commit, and changes nothing else.

        A job that is complete and still registered is stopped first. Raises NotFoundError for a
        source or job that does not exist, and ConflictError for a job that cannot be created.
        """
        applier = self.services.applier
        async with self._applied_commit(source_name) as (read, source, cache):
            for namespace, job_id in keys:
                if (namespace, job_id) not in read.discovery.jobs:
                    raise NotFoundError(
                        f"cannot run job {job_id!r} again: the applied commit of source "
                        f"{source.name!r} has no such job in namespace {namespace!r}"
                    )
            complete = [key for key in keys if self._is_registered_and_complete(source.name, key)]
            for namespace, job_id in complete:
                await deregister_job(self.services.context, namespace, job_id, DeregisterOptions())
            wanted = frozenset(keys)
            plan = await applier.plan(read, source.name, cache, PlanRequest(wanted, only=wanted))
            read.refuse_problems(plan)
            return await applier.apply(read, plan, Trigger("api", by), cache)

    async def retry(self, source_name: str, request: RetryRequest) -> Rollout:
        """Applies held versions again in one rollout of the applied commit, and changes nothing
        else. A version that fails again is held again.

        Raises NotFoundError for a source that does not exist and for a job without a held version,
        and ConflictError while the source is paused.
        """
        applier = self.services.applier
        async with self._applied_commit(source_name) as (read, source, cache):
            keys = self._held_keys(source.name, request)
            named = {job_id for _, job_id in request.jobs}
            read = with_fields(read, may_delete=read.may_delete | named)
            plan = await applier.plan(read, source.name, cache, PlanRequest(keys, only=keys))
            read.refuse_problems(plan)
            return await applier.apply(read, plan, Trigger("retry", request.by), cache)

    async def adopt(self, source_name: str, by: str = "") -> Rollout | None:
        """Takes over the jobs without a source of which the applied commit has a file, in one
        rollout; None if there are none. The source's `adopt` setting has to be on.

        A job of which a version is held, and one that is complete, stays as it is: taking it over
        would run it. Raises as `retry`, and JobFileError for a job that cannot be taken over.
        """
        applier = self.services.applier
        async with self._applied_commit(source_name) as (read, source, cache):
            with self.services.context.snapshot() as snapshot:
                held = {each.key for each in snapshot.held_versions.known_of_source("")}
                sources = {each.name for each in snapshot.sources.all()}
                jobs = snapshot.jobs.get_many(read.discovery.jobs)
            keys = frozenset(
                key
                for key, job in jobs.items()
                if owner_of(job) not in sources
                and not job.stop
                and (job.origin is None or job.origin.released_from != source_name)
                and not (runs_once(job) and job.status == JobStatus.DEAD)
                and key not in held
            )
            if not keys:
                return None
            plan = await applier.plan(read, source.name, cache, PlanRequest(keys, only=keys))
            read.refuse_problems(plan)
            return await applier.apply(read, plan, Trigger("api", by), cache)

    def _held_keys(self, source_name: str, request: RetryRequest) -> frozenset[JobKey]:
        with self.services.context.snapshot() as snapshot:
            held = {each.key for each in snapshot.held_versions.of_source(source_name)}
        missing = [key for key in request.jobs if key not in held]
        if missing or not held:
            names = ", ".join(sorted(job_id for _, job_id in held)[:10])
            which = f"job {missing[0][1]!r}" if missing else "a job"
            raise NotFoundError(
                f"cannot retry {which}: source {source_name!r} holds "
                + (f"only versions of {names}" if held else "no version of any job")
            )
        return frozenset(held if request.every else request.jobs)

    @asynccontextmanager
    async def _applied_commit(
        self, source_name: str
    ) -> AsyncIterator[tuple[ReadCommit, Source, SourceCache]]:
        """Reads the applied commit, and keeps other commits of the source away meanwhile."""
        applier = self.services.applier
        mirror = self.services.mirror_of(source_name)
        cache = self.services.caches.of(source_name)
        await self.services.synchronizer.wait_until_current(mirror.name)
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
            yield await applier.read(mirror.open(), commit_id, source, cache), source, cache

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
