"""Which sources have a running loop: follows the `sources` table on the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from orchgit.errors import NotFoundError, OrchgitError
from orchgit.gitops.log import LOG
from orchgit.gitops.mirrors import Mirrors
from orchgit.gitops.reconciler import ReconcilerPorts, SourceReconciler
from orchgit.gitops.urls import parse_url
from orchgit.gitops.watch import watch_refs
from orchgit.model.source import Source, SourceKind, SourceStatus

_IDLE_WAIT_S = 300.0
_WATCH_RETRY_S = 5.0


@dataclass(slots=True)
class _Followed:
    settings: Source
    reconciler: SourceReconciler
    tasks: list[asyncio.Task[None]]


class SourceLoops:
    """Starts a reconciler (and a watch, for a local path) per source; stops them with it."""

    def __init__(
        self, mirrors: Mirrors, ports: ReconcilerPorts, forget: Callable[[str], None]
    ) -> None:
        self._mirrors = mirrors
        self._ports = ports
        self._forget = forget
        self._followed: dict[str, _Followed] = {}

    async def run(self) -> None:
        """Until cancelled; then every loop has ended."""
        try:
            while True:
                with self._ports.world.snapshot() as snapshot:
                    index = snapshot.index
                    sources = {source.name: source for source in snapshot.sources()}
                await self._match(sources)
                await self._ports.world.state.store.watch.wait(("sources",), index, _IDLE_WAIT_S)
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
        if followed.settings.url != source.url or followed.settings.kind != source.kind:
            await self._stop(source.name)
            self._start(source)
        else:
            followed.settings = _settings(source)
        self._followed[source.name].reconciler.wake("api", force=True)

    def _start(self, source: Source) -> None:
        mirror = self._mirrors.get(source.name)
        reconciler = SourceReconciler(source.name, mirror, self._ports)
        tasks = [asyncio.create_task(reconciler.run(), name=f"source {source.name}")]
        if source.kind == SourceKind.LOCAL:
            tasks.append(
                asyncio.create_task(self._watch(source, reconciler), name=f"watch {source.name}")
            )
        self._followed[source.name] = _Followed(_settings(source), reconciler, tasks)

    async def _watch(self, source: Source, reconciler: SourceReconciler) -> None:
        """The path may not be there yet, or go and come back; polling goes on meanwhile."""
        while True:
            try:
                path = Path(parse_url(source.url).path)
                await watch_refs(path, lambda: reconciler.wake("watch"))
            except (OrchgitError, OSError) as error:
                LOG.warning("cannot watch a source", source=source.name, error=str(error))
            await self._ports.world.clock.sleep(_WATCH_RETRY_S)

    async def _stop(self, name: str) -> None:
        followed = self._followed.pop(name)
        for task in followed.tasks:
            task.cancel()
        await asyncio.gather(*followed.tasks, return_exceptions=True)

    def wake(self, name: str, trigger: str, force: bool = False) -> None:
        """A source that is not followed yet needs no waking: its loop begins with a round."""
        followed = self._followed.get(name)
        if followed is not None:
            followed.reconciler.wake(trigger, force)

    def reconciler(self, name: str) -> SourceReconciler:
        followed = self._followed.get(name)
        if followed is None:
            raise NotFoundError(f"cannot find source {name!r}; `orchgit source list` shows them")
        return followed.reconciler


def _settings(source: Source) -> Source:
    """The source without what changes by itself."""
    return replace(source, status=SourceStatus(), create_index=0, modify_index=0)
