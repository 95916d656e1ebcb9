"""Which sources have a running loop: on the leader, one for each row of the `sources` table."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from random import Random

import structlog
from msgspec.structs import replace

from orchgit.errors import OrchgitError
from orchgit.gitops.commits.gatekeeper import Gatekeeper
from orchgit.gitops.commits.services import CommitServices
from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.sources.access import opened_url
from orchgit.gitops.sources.local_watch import watch_refs
from orchgit.gitops.sources.reconciler import SourceReconciler
from orchgit.gitops.sources.remote_reader import RemoteReader
from orchgit.gitops.sources.wakeups import NOBODY, Asker
from orchgit.model.source import Source, SourceKind, SourceStatus
from orchgit.model.source_health import SourceCheck

_IDLE_WAIT_S = 300.0
_WATCH_RETRY_S = 5.0

_log = structlog.get_logger(component="gitops")


@dataclass(slots=True)
class _Followed:
    """A source with a running loop; `watch` is the task that watches a local repository."""

    settings: Source
    reconciler: SourceReconciler
    loop: asyncio.Task[None]
    watch: asyncio.Task[None] | None


class SourceLoops:
    """Starts a reconciler for each source, with a watch for a local path, and stops both when the
    source is removed."""

    def __init__(
        self,
        services: CommitServices,
        config: GitopsConfig,
        random: Random,
        gatekeeper: Gatekeeper,
    ) -> None:
        self._services = services
        self._config = config
        self._random = random
        self._gatekeeper = gatekeeper
        self._remotes = RemoteReader(
            services.git,
            config,
            services.context.clock,
            lambda: services.synchronizer.own_name,
            lambda name: self.wake(name, "poll"),
        )
        self._followed: dict[str, _Followed] = {}
        self._matched = asyncio.Condition()

    async def run(self) -> None:
        """Runs until cancelled; then every loop has ended."""
        context = self._services.context
        try:
            while True:
                with context.snapshot() as snapshot:
                    index = snapshot.index
                    sources = {source.name: source for source in snapshot.sources.all()}
                await self._match(sources)
                async with self._matched:
                    self._matched.notify_all()
                await context.state.store.watch.wait(("sources",), index, _IDLE_WAIT_S)
        finally:
            for name in list(self._followed):
                await self._stop(name)
            await self._remotes.close()

    async def _match(self, sources: dict[str, Source]) -> None:
        for name in [name for name in self._followed if name not in sources]:
            await self._stop(name)
            self._services.caches.forget(name)
            self._remotes.forget(name)
        for name, source in sources.items():
            settings = _settings(source)
            followed = self._followed.get(name)
            if followed is None:
                mirror = self._services.mirrors.get(source.repository_name)
                reconciler = SourceReconciler(
                    name,
                    mirror,
                    self._services,
                    self._remotes,
                    self._random,
                    self._gatekeeper,
                )
                loop = asyncio.create_task(reconciler.run(), name=f"source {name}")
                watch = self._start_watch(source, reconciler)
                self._followed[name] = _Followed(settings, reconciler, loop, watch)
            elif followed.settings != settings:
                # New settings may make a refused commit right: it is tried again.
                before, followed.settings = followed.settings, settings
                if (before.kind, before.url) != (source.kind, source.url):
                    await _end(followed.watch)
                    followed.watch = self._start_watch(source, followed.reconciler)
                with self._services.context.snapshot() as snapshot:
                    change = snapshot.authored_changes.get("sources", name)
                asker = NOBODY
                if change is not None and change.modify_index == source.modify_index:
                    asker = Asker(change.author.name, change.author)
                followed.reconciler.wake("api", force=True, asker=asker)

    def _start_watch(
        self, source: Source, reconciler: SourceReconciler
    ) -> asyncio.Task[None] | None:
        if source.kind != SourceKind.LOCAL:
            return None
        watch = self._watch(source, reconciler)
        return asyncio.create_task(watch, name=f"watch {source.name}")

    async def _watch(self, source: Source, reconciler: SourceReconciler) -> None:
        """Watches a local repository, whose path may appear and disappear; polling goes on."""
        while True:
            try:
                server = self._services.synchronizer.own_name
                url = await asyncio.to_thread(opened_url, self._config, source, server)
                await watch_refs(Path(url.path), lambda: reconciler.wake("watch"))
            except (OrchgitError, OSError) as error:
                _log.warning("cannot watch a source", source=source.name, error=str(error))
            await self._services.context.clock.sleep(_WATCH_RETRY_S)

    async def _stop(self, name: str) -> None:
        followed = self._followed.pop(name)
        await _end(followed.loop)
        await _end(followed.watch)

    def wake(self, name: str, trigger: str, force: bool = False, asker: Asker = NOBODY) -> None:
        """Wakes the source's loop. A source without a loop needs no wake-up: its loop begins with
        a round."""
        followed = self._followed.get(name)
        if followed is not None:
            followed.reconciler.wake(trigger, force, asker)

    def pushed(self, name: str) -> None:
        """Notes that a push has just told the source's commit, as a check would."""
        followed = self._followed.get(name)
        if followed is not None:
            followed.reconciler.note_push()

    def check(self, name: str) -> SourceCheck:
        """Returns how the rounds of the source go; not `known` where no loop follows it."""
        followed = self._followed.get(name)
        return followed.reconciler.check if followed is not None else SourceCheck()

    async def reconciler(self, name: str) -> SourceReconciler:
        """Returns the reconciler of a stored source, as soon as it has been started."""
        async with self._matched:
            await self._matched.wait_for(lambda: name in self._followed)
        return self._followed[name].reconciler


async def _end(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _settings(source: Source) -> Source:
    """Returns the source without its status and indexes, which change by themselves."""
    return replace(source, status=SourceStatus(), create_index=0, modify_index=0)
