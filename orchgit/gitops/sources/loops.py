"""Which sources have a running loop: follows the `sources` table on the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog
from msgspec.structs import replace

from orchgit.errors import OrchgitError
from orchgit.gitops.mirrors.mirror import MirrorStore
from orchgit.gitops.sources.access import opened_url
from orchgit.gitops.sources.local_watch import watch_refs
from orchgit.gitops.sources.reconciler import ReconcilerPorts, SourceReconciler
from orchgit.model.source import Source, SourceKind, SourceStatus

_log = structlog.get_logger(component="gitops")

_IDLE_WAIT_S = 300.0
_WATCH_RETRY_S = 5.0


@dataclass(slots=True)
class _Followed:
    settings: Source
    reconciler: SourceReconciler
    loop: asyncio.Task[None]
    watch: asyncio.Task[None] | None


class SourceLoops:
    """Starts a reconciler (and a watch, for a local path) per source; stops them with it."""

    def __init__(
        self, mirrors: MirrorStore, ports: ReconcilerPorts, forget: Callable[[str], None]
    ) -> None:
        self._mirrors = mirrors
        self._ports = ports
        self._forget = forget
        self._followed: dict[str, _Followed] = {}
        self._matched = asyncio.Condition()

    async def run(self) -> None:
        """Until cancelled; then every loop has ended."""
        try:
            while True:
                with self._ports.context.snapshot() as snapshot:
                    index = snapshot.index
                    sources = {source.name: source for source in snapshot.sources.all()}
                await self._match(sources)
                async with self._matched:
                    self._matched.notify_all()
                await self._ports.context.state.store.watch.wait(("sources",), index, _IDLE_WAIT_S)
        finally:
            for name in list(self._followed):
                await self._stop(name)

    async def _match(self, sources: dict[str, Source]) -> None:
        for name in [name for name in self._followed if name not in sources]:
            await self._stop(name)
            self._forget(name)
        for name, source in sources.items():
            followed = self._followed.get(name)
            settings = _settings(source)
            if followed is None:
                self._start(source)
            elif followed.settings != settings:
                await self._changed(followed, source)

    async def _changed(self, followed: _Followed, source: Source) -> None:
        """Other settings may make a refused commit right, so that one is tried again too."""
        before, followed.settings = followed.settings, _settings(source)
        if (before.kind, before.url) != (source.kind, source.url):
            await _end(followed.watch)
            followed.watch = self._start_watch(source, followed.reconciler)
        followed.reconciler.wake("api", force=True)

    def _start(self, source: Source) -> None:
        reconciler = SourceReconciler(source.name, self._mirrors.get(source.name), self._ports)
        loop = asyncio.create_task(reconciler.run(), name=f"source {source.name}")
        watch = self._start_watch(source, reconciler)
        self._followed[source.name] = _Followed(_settings(source), reconciler, loop, watch)

    def _start_watch(
        self, source: Source, reconciler: SourceReconciler
    ) -> asyncio.Task[None] | None:
        if source.kind != SourceKind.LOCAL:
            return None
        watch = self._watch(source, reconciler)
        return asyncio.create_task(watch, name=f"watch {source.name}")

    async def _watch(self, source: Source, reconciler: SourceReconciler) -> None:
        """The path may not be there yet, or go and come back; polling goes on meanwhile."""
        while True:
            try:
                config, server = self._ports.config, self._ports.synchronizer.own_name
                url = await asyncio.to_thread(opened_url, config, source, server)
                await watch_refs(Path(url.path), lambda: reconciler.wake("watch"))
            except (OrchgitError, OSError) as error:
                _log.warning("cannot watch a source", source=source.name, error=str(error))
            await self._ports.context.clock.sleep(_WATCH_RETRY_S)

    async def _stop(self, name: str) -> None:
        followed = self._followed.pop(name)
        await _end(followed.loop)
        await _end(followed.watch)

    def wake(self, name: str, trigger: str, force: bool = False) -> None:
        """A source that is not followed yet needs no waking: its loop begins with a round."""
        followed = self._followed.get(name)
        if followed is not None:
            followed.reconciler.wake(trigger, force)

    def last_checked_ns(self, name: str) -> int:
        """When the last round of a source ended here; 0 before the first."""
        followed = self._followed.get(name)
        return followed.reconciler.last_checked_ns if followed is not None else 0

    async def reconciler(self, name: str) -> SourceReconciler:
        """The loop of a source that is stored, once it has been started."""
        async with self._matched:
            await self._matched.wait_for(lambda: name in self._followed)
        return self._followed[name].reconciler


async def _end(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _settings(source: Source) -> Source:
    """The source without what changes by itself."""
    return replace(source, status=SourceStatus(), create_index=0, modify_index=0)
