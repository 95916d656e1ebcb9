"""Finds jobs that differ from what the applied commits of their sources want: one loop on the
leader.

The loop looks at the jobs whose rows changed, and at all jobs of a source once after the start and
after each commit. What the commit wants is in the source's cache; after a restart the applied
commit is read again, from the parse cache.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from msgspec.structs import replace

from orchgit.backoff import backoff_s
from orchgit.errors import NotFoundError, NotUnderstoodError, OrchgitError, SourceError
from orchgit.gitops.commits.holds import is_held
from orchgit.gitops.commits.services import CommitServices
from orchgit.gitops.commits.source_cache import CommitJobs
from orchgit.gitops.drift.comparison import (
    UNKNOWN,
    JobFacts,
    job_drift,
    of_settings,
    was_auto_reverted,
)
from orchgit.gitops.parsing.desired import DesiredJob, JobKey
from orchgit.gitops.parsing.trees import CommitTree
from orchgit.gitops.rollouts.waiting import unapplied_jobs
from orchgit.model.drift import JobDrift
from orchgit.model.held_version import HeldVersion
from orchgit.model.job import Job
from orchgit.model.ownership import owner_of
from orchgit.model.source import DriftPolicy, PrunePolicy, Source
from orchgit.replication.events import AppliedFeed
from orchgit.services.gitops.drift import record_drift
from orchgit.state.snapshot import Snapshot

_log = structlog.get_logger(component="gitops")

_RETRY_S = 1.0
_MAX_READ_RETRY_S = 300.0
_UPGRADE_RETRY_S = 30.0
_PAUSE_S = 0.02
"""The least time between two rounds, so that changes which come together are one round."""
_IN_THREAD_FROM = 20
"""From this many changed jobs on, a round may take longer than the event loop should wait."""
_READ_AT_ONCE = 500

Mark = tuple[int, str] | None
"""The JobModifyIndex and the source of a registered job: while both stay, so does the verdict."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the applied commit of one source wants, and the settings that decide about drift.
    `unapplied` are jobs whose stage was not applied when they were compared."""

    commit: CommitJobs
    drift: DriftPolicy
    prune: PrunePolicy
    unapplied: frozenset[JobKey]

    def differs_only_in_commit(self, other: _Wanted) -> bool:
        """Returns whether the other one is of another commit at most, read with the same
        settings of the source."""
        mine, others = (self.drift, self.prune), (other.drift, other.prune)
        return mine == others and self.commit.has_settings(other.commit.source)

    def still_holds(self, source: Source) -> bool:
        same_settings = (self.drift, self.prune) == (source.drift, source.prune)
        return same_settings and self.commit.is_applied(source)


@dataclass(slots=True)
class _News:
    """What changed since the last round: jobs, jobs with a held version, sources by name, or
    anything."""

    jobs: set[JobKey] = field(default_factory=set)
    held: set[JobKey] = field(default_factory=set)
    sources: set[str] = field(default_factory=set)
    anything: bool = True

    def add(self, other: _News) -> None:
        self.jobs |= other.jobs
        self.held |= other.held
        self.sources |= other.sources
        self.anything = self.anything or other.anything

    def __bool__(self) -> bool:
        return bool(self.jobs or self.held or self.sources or self.anything)


@dataclass(slots=True)
class _Round:
    """What one look at the state found. `seen` are the marks of the jobs looked at, `unread` the
    sources whose applied commit has to be read first, `again` jobs that a source wants no more and
    others do."""

    index: int
    put: list[JobDrift] = field(default_factory=list)
    clear: list[JobKey] = field(default_factory=list)
    seen: dict[JobKey, Mark] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    again: set[JobKey] = field(default_factory=set)


class DriftDetector:
    """Compares jobs while this server leads, and records in the log which have drifted."""

    def __init__(self, services: CommitServices) -> None:
        self._services = services
        self._context = services.context
        self._reset()

    def _reset(self) -> None:
        self._news = _News()
        self._woken = asyncio.Event()
        self._wanted: dict[str, _Wanted] = {}
        self._sources_of: dict[JobKey, tuple[str, ...]] = {}
        self._behind: dict[str, set[JobKey]] = {}
        """Jobs by source that changed while the source's applied commit was not read."""
        self._seen: dict[JobKey, Mark] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Runs until cancelled."""
        self._reset()
        feed = self._context.state.subscribe()
        listening = asyncio.create_task(self._listen(feed), name="drift changes")
        self._woken.set()
        try:
            while True:
                await self._woken.wait()
                self._woken.clear()
                await self._look()
                await self._context.clock.sleep(_PAUSE_S)
        finally:
            tasks = [listening, *self._reading.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            feed.close()

    async def _listen(self, feed: AppliedFeed) -> None:
        async for batch in feed:
            if batch.replaced or batch.effects.restored:
                self._wake(_News())
                continue
            jobs = _keys(batch.changed.get("jobs", ()))
            held = _keys(batch.changed.get("held_versions", ()))
            sources = set(batch.changed.get("sources", ()))
            if jobs or held or sources:
                self._wake(_News(jobs, held, sources, anything=False))

    def _wake(self, news: _News) -> None:
        self._news.add(news)
        self._woken.set()

    async def _look(self) -> None:
        """Compares what changed, and records what came of it."""
        news, self._news = self._news, _News(anything=False)
        if not news:
            return
        try:
            if news.anything or news.sources or len(news.jobs) + len(news.held) >= _IN_THREAD_FROM:
                found = await asyncio.to_thread(self._compared, news)
            else:
                found = self._compared(news)
            passed_over: Sequence[JobKey] = ()
            if found.put or found.clear:
                passed_over = await record_drift(self._context, found.put, found.clear, found.index)
        except Exception as error:  # noqa: BLE001 - one bad round must not end the loop
            if isinstance(error, OrchgitError):
                _log.warning("cannot record drift", error=str(error))
            else:
                _log.exception("a round of the drift detector failed")
            if isinstance(error, NotUnderstoodError):
                watch = self._context.state.store.watch
                servers = ("servers",)  # an upgraded server writes its record
                await watch.wait(servers, watch.index(servers), _UPGRADE_RETRY_S)
            else:
                await self._context.clock.sleep(_RETRY_S)
            for name in news.sources:
                self._forget(name)  # what came of its comparison is lost
            self._wake(news)
            return
        self._seen.update(found.seen)
        if passed_over:  # somebody wrote of their drift after the snapshot
            self._wake(_News(held=set(passed_over), anything=False))
        for name in found.unread:
            known = self._reading.get(name)
            if known is None or known.done():
                self._reading[name] = asyncio.create_task(self._read(name), name=f"drift of {name}")

    # -- comparing -----------------------------------------------------------------------------

    def _compared(self, news: _News) -> _Round:
        """Looks at what changed in one snapshot."""
        with self._context.snapshot() as snapshot:
            found = _Round(snapshot.index)
            names = news.sources
            if news.anything:
                self._wanted.clear()
                self._sources_of.clear()
                self._behind.clear()
                self._seen.clear()
                names = {each.name for each in snapshot.sources.all()}
                names |= snapshot.drifted_jobs.counts().keys()
            for name in names:
                self._compare_source(snapshot, name, found)
            for key in news.held:
                self._seen.pop(key, None)
            self._compare_jobs(snapshot, news.jobs | news.held | found.again, found)
            put = {_key_of(each) for each in found.put}
            found.clear = [key for key in found.clear if key not in put]
            return found

    def _compare_source(self, snapshot: Snapshot, name: str, found: _Round) -> None:
        """Compares all jobs of a source if what it wants, or what drift is, has changed."""
        source, wanted = snapshot.sources.get(name), self._wanted.get(name)
        if source is not None and wanted is not None and wanted.still_holds(source):
            return
        if source is None or not source.status.applied_commit:
            found.again |= self._forget(name)
            found.clear += [_key_of(each) for each in snapshot.drifted_jobs.all(name)]
            return
        cache = self._services.caches.of(name)
        commit = cache.commit_jobs
        if commit is None or not commit.is_applied(source):
            found.unread.add(name)
            return
        rollout = snapshot.rollouts.get(source.status.applied_rollout)
        unapplied = frozenset(unapplied_jobs(rollout)) if rollout is not None else frozenset()
        recorded = {_key_of(each): each for each in snapshot.drifted_jobs.all(name)}
        now_wanted = _Wanted(commit, source.drift, source.prune, unapplied)
        if wanted is not None and wanted.differs_only_in_commit(now_wanted):
            # What the rows of jobs tell is in the news of those jobs.
            self._wanted[name] = now_wanted
            old, new = wanted.commit.jobs, commit.jobs
            other = {key for key, job in new.items() if old.get(key) is not job}
            gone = old.keys() - new.keys()
            found.again |= self._unmap(name, gone)
            other |= gone | recorded.keys() | unapplied | wanted.unapplied
            other |= self._behind.pop(name, set())
            self._map(name, other & new.keys())
            self._compare_keys(snapshot, source, other, snapshot.jobs.marks(other), found)
            return
        found.again |= self._forget(name) - commit.jobs.keys()
        self._wanted[name] = now_wanted
        self._map(name, commit.jobs)
        keys = {*commit.jobs, *snapshot.jobs.keys_of_source(name), *recorded}
        marks = snapshot.jobs.marks(keys)
        applied = cache.last_applied_for(source) or {}
        unsure = set()
        for key in keys:
            mark = marks.get(key)
            known = applied.get(key)
            # Other settings of the source may read another job from the same file.
            is_as_applied = (
                known is not None
                and known.desired is commit.jobs.get(key)
                and mark == (known.job_modify_index, name)
            )
            is_shared = len(self._sources_of.get(key, ())) > 1
            if is_as_applied and key not in recorded and not is_shared:
                found.seen[key] = mark
            else:
                unsure.add(key)
        self._compare_keys(snapshot, source, unsure, marks, found)

    def _forget(self, name: str) -> set[JobKey]:
        """Forgets what a source wants. Returns the jobs that other sources want as well."""
        wanted = self._wanted.pop(name, None)
        self._behind.pop(name, None)
        return self._unmap(name, wanted.commit.jobs) if wanted is not None else set()

    def _map(self, name: str, keys: Iterable[JobKey]) -> None:
        """Notes that the source wants these jobs."""
        alone = (name,)
        for key in keys:
            known = self._sources_of.get(key, alone)
            self._sources_of[key] = alone if known == alone else tuple(sorted({*known, name}))

    def _unmap(self, name: str, keys: Iterable[JobKey]) -> set[JobKey]:
        """Notes that the source does not want these jobs. Returns those that others want."""
        shared = set()
        for key in keys:
            others = tuple(each for each in self._sources_of.pop(key, ()) if each != name)
            if others:
                self._sources_of[key] = others
                shared.add(key)
            self._seen.pop(key, None)
        return shared

    def _compare_jobs(self, snapshot: Snapshot, changed: Collection[JobKey], found: _Round) -> None:
        """Compares the changed jobs that a source wants, owns, or is recorded to have lost."""
        marks = snapshot.jobs.marks(changed) if changed and self._wanted else {}
        by_source: dict[str, set[JobKey]] = {}
        for key in changed if self._wanted else ():
            mark = marks.get(key)
            if key in found.seen or (key in self._seen and self._seen[key] == mark):
                continue
            names = self._sources_of.get(key) or ((mark[1],) if mark is not None else ())
            if not any(names):
                recorded = snapshot.drifted_jobs.get(*key)
                names = (recorded.source,) if recorded is not None else ()
            known = next((name for name in names if name in self._wanted), None)
            if known is not None:  # else it is compared when the source's commit has been read
                by_source.setdefault(known, set()).add(key)
        for name, keys in by_source.items():
            self._compare_source(snapshot, name, found)
            source = snapshot.sources.get(name)
            if name in found.unread:
                self._behind.setdefault(name, set()).update(keys)
            elif source is not None and name in self._wanted:
                rest = keys - found.seen.keys()
                self._compare_keys(snapshot, source, rest, marks, found)

    def _compare_keys(
        self,
        snapshot: Snapshot,
        source: Source,
        keys: Iterable[JobKey],
        marks: Mapping[JobKey, tuple[int, str]],
        found: _Round,
    ) -> None:
        judges: dict[str, _Judge | None] = {}
        registered_by = _RolloutVersions(snapshot)
        now_ns = self._context.now_ns()
        ordered = sorted(keys)
        # Few jobs have drifted: of many jobs, all that have are read at once.
        known = None
        if len(ordered) >= _IN_THREAD_FROM:
            known = {_key_of(each): each for each in snapshot.drifted_jobs.all()}
        for first in range(0, len(ordered), _READ_AT_ONCE):
            some = ordered[first : first + _READ_AT_ONCE]
            registered = snapshot.jobs.get_many(some)
            for key in some:
                job = registered.get(key)
                recorded = snapshot.drifted_jobs.get(*key) if known is None else known.get(key)
                found.seen[key] = marks.get(key)
                drift: JobDrift | None = None
                try:
                    # Of a job that several sources want, the first that finds drift says so.
                    for name in sorted(
                        {source.name, owner_of(job), *self._sources_of.get(key, ())}
                    ):
                        if name not in judges:
                            judges[name] = self._judge(snapshot, name)
                        judge = judges[name]
                        if judge is not None and drift is None:
                            facts = judge.facts(snapshot, key, job, recorded)
                            drift = job_drift(judge.source, key, facts, now_ns)
                except Exception:  # noqa: BLE001 - one odd job must not hide the others' drift
                    _log.exception("cannot compare a job", source=source.name, job=key[1])
                    continue
                if drift is not None and drift.changed_via == UNKNOWN:
                    drift = of_settings(drift, job, registered_by(job))
                if drift is None and recorded is not None:
                    found.clear.append(key)
                elif drift is not None and not _is_recorded(drift, recorded):
                    found.put.append(drift)

    def _judge(self, snapshot: Snapshot, name: str) -> _Judge | None:
        """Returns what a source's verdicts rest on, None while its commit has not been read."""
        source, wanted = snapshot.sources.get(name), self._wanted.get(name)
        if source is None or wanted is None:
            return None
        rollout = snapshot.rollouts.get(source.status.applied_rollout)
        unapplied = unapplied_jobs(rollout) if rollout is not None else frozenset()
        held = {each.key: each for each in snapshot.held_versions.known_of_source(name)}
        return _Judge(source, wanted.commit.jobs, unapplied, held)

    # -- the applied commit, after a restart -----------------------------------------------------

    async def _read(self, name: str) -> None:
        """Reads the applied commit of a source, as soon as its objects are here."""
        failures = 0
        while True:
            try:
                await self._read_once(name)
            except NotFoundError:
                return  # the source was removed
            except OrchgitError as error:
                _log.info("cannot read an applied commit yet", source=name, error=str(error))
                await self._context.clock.sleep(backoff_s(failures, _RETRY_S, _MAX_READ_RETRY_S))
                failures += 1
            else:
                self._wake(_News(sources={name}, anything=False))
                return

    async def _read_once(self, name: str) -> None:
        services = self._services
        mirror, cache = services.mirror_of(name), services.caches.of(name)
        await services.synchronizer.wait_until_current(mirror.name)
        # A commit that is being applied sets the cache before it gives the lock back.
        async with mirror.lock:
            source = services.applier.source(name)
            commit_id = source.status.applied_commit
            if cache.commit_jobs is not None and cache.commit_jobs.is_applied(source):
                return
            tree = CommitTree(mirror.open(), commit_id)
            discovery = await asyncio.to_thread(cache.discoverer.discover, tree, source)
            if discovery.problems:
                raise SourceError(
                    f"cannot tell what source {name!r} wants: commit {commit_id[:12]} cannot be "
                    f"read with the source's settings: {discovery.problems[0]}"
                )
            cache.commit_jobs = CommitJobs(commit_id, source, discovery.jobs)


@dataclass(frozen=True, slots=True)
class _Judge:
    """A source whose verdict counts: the jobs of its applied commit, those of them whose stage is
    not applied yet, and its held versions."""

    source: Source
    jobs: Mapping[JobKey, DesiredJob]
    unapplied: Collection[JobKey]
    held: Mapping[JobKey, HeldVersion]

    def facts(
        self, snapshot: Snapshot, key: JobKey, job: Job | None, recorded: JobDrift | None
    ) -> JobFacts:
        wanted, held = self.jobs.get(key), self.held.get(key)
        is_own = held is not None and is_held(wanted, held)
        deployments = snapshot.deployments.of_job(*key) if job is not None and job.version else ()
        return JobFacts(
            wanted=wanted,
            registered=job,
            recorded=recorded,
            auto_reverted=job is not None and was_auto_reverted(job, deployments),
            is_held=is_own or key in self.unapplied,
        )


class _RolloutVersions:
    """Which version of each job the rollouts of one snapshot registered; each is read once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._known: dict[str, dict[JobKey, int]] = {}

    def __call__(self, job: Job | None) -> int | None:
        """Returns the version that the rollout of the job's origin registered, None if unknown."""
        rollout_id = job.origin.rollout_id if job is not None and job.origin is not None else ""
        if job is None or not rollout_id:
            return None
        if rollout_id not in self._known:
            rollout = self._snapshot.rollouts.get(rollout_id)
            jobs = rollout.jobs if rollout is not None else []
            self._known[rollout_id] = {
                (each.namespace, each.job_id): each.job_version for each in jobs
            }
        return self._known[rollout_id].get((job.namespace, job.id))


def _is_recorded(drift: JobDrift, recorded: JobDrift | None) -> bool:
    if recorded is None:
        return False
    indexes = (recorded.create_index, recorded.modify_index)
    return replace(drift, create_index=indexes[0], modify_index=indexes[1]) == recorded


def _keys(names: Iterable[str]) -> set[JobKey]:
    """Returns the jobs of keys that tables of jobs have."""
    pairs = (name.partition("/") for name in names)
    return {(namespace, job_id) for namespace, _, job_id in pairs}


def _key_of(drift: JobDrift) -> JobKey:
    return (drift.namespace, drift.job_id)
