"""What every use case needs: the replicated state, the clock and a source of ids."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from weakref import WeakValueDictionary

from orchgit.clock import Clock
from orchgit.errors import ConflictError, NotUnderstoodError, RefusedError
from orchgit.ids import IdSource
from orchgit.model.job import Job
from orchgit.replication.commands.codec import Command
from orchgit.replication.proposal import RequestWrites
from orchgit.replication.replicated import Applied, ReplicatedState
from orchgit.services.csi.plugins import PluginCache
from orchgit.services.jobs.admission import (
    DEFAULT_JOB_SETTINGS,
    RULE_TABLES,
    ClusterRules,
    JobSettings,
    cluster_rules,
)
from orchgit.state.job_loader import JobLoader
from orchgit.state.snapshot import Snapshot
from orchgit.state.tables_cache import TablesCache


class ContextCaches:
    """What all contexts of one server share."""

    def __init__(self, job_settings: JobSettings) -> None:
        self.rules: TablesCache[ClusterRules] = TablesCache(
            RULE_TABLES, lambda snapshot: cluster_rules(snapshot, job_settings)
        )
        self.jobs = JobLoader()
        self.csi_plugins = PluginCache()
        self.dispatches: WeakValueDictionary[tuple[str, str, str], asyncio.Lock]
        self.dispatches = WeakValueDictionary()
        """By namespace, job and idempotency token: requests with one token wait for each other.
        Only the leader has requests that write."""


class UseCaseContext:
    """Reads and writes the replicated state on behalf of a use case; never changed.

    Every writing request makes one, so the class is a plain one: a frozen dataclass costs twice.
    """

    __slots__ = ("caches", "clock", "ids", "job_settings", "state", "writes")

    def __init__(
        self,
        state: ReplicatedState,
        clock: Clock,
        ids: IdSource,
        job_settings: JobSettings = DEFAULT_JOB_SETTINGS,
        writes: RequestWrites | None = None,
        caches: ContextCaches | None = None,
    ) -> None:
        self.state = state
        self.clock = clock
        self.ids = ids
        self.job_settings = job_settings
        self.writes = writes
        """Notes the commands that are proposed."""
        self.caches = caches or ContextCaches(job_settings)

    def noting(self, writes: RequestWrites | None) -> UseCaseContext:
        """Returns the same context for one request: its commands are noted in `writes`."""
        return UseCaseContext(
            self.state, self.clock, self.ids, self.job_settings, writes, self.caches
        )

    def snapshot(self) -> Snapshot:
        return self.state.store.snapshot()

    async def registered_job(self, namespace: str, job_id: str) -> Job | None:
        """Returns the current version of the job; many callers at once share one read."""
        return await self.caches.jobs.get(self.state.store, namespace, job_id)

    def cluster_rules(self) -> ClusterRules:
        """Returns the rules that every job has to meet now."""
        return self.caches.rules.get(self.state.store)

    def now_ns(self) -> int:
        return self.clock.now_ns()

    async def propose(self, command: Command, timeout_s: float = 30.0) -> Applied:
        """Commits one entry; returns when its effects can be read."""
        return await self.state.propose(command, timeout_s, writes=self.writes)

    async def propose_newest(self, command: Command, earlier: Callable[[], Command]) -> Applied:
        """Commits one entry, or in its place `earlier()` while a server of an earlier version is a
        member, which would not understand it."""
        try:
            return await self.propose(command)
        except NotUnderstoodError:
            return await self.propose(earlier())

    async def propose_or_refuse(self, command: Command, refusal: str) -> Applied:
        """Like `propose`; a lost race (ConflictError) becomes the refusal Nomad's clients know."""
        try:
            return await self.propose(command)
        except ConflictError as error:
            raise RefusedError(refusal) from error

    async def propose_if_unchanged(self, command: Command) -> tuple[int, bool]:
        """Returns (index, whether the command was applied); a ConflictError means that it was
        not."""
        try:
            return (await self.propose(command)).index, True
        except ConflictError:
            with self.snapshot() as snapshot:
                return snapshot.index, False
