"""Reads remote repositories for all sources of a server: each is listed and fetched once for all.

Sources that name the same URL, credential and authorities share a remote. Within an interval they
share one listing of its refs, also one that failed; when a listing has changed, all of them are
woken. A commit that was fetched for one source is copied from its mirror for the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from orchgit.clock import Clock
from orchgit.errors import OrchgitError, SourceError
from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.git.http_listing import HttpListings
from orchgit.gitops.git.process import GitProcess
from orchgit.gitops.git.refs import ResolvedRef, is_commit_id, resolve_ref
from orchgit.gitops.git.remotes import Remote
from orchgit.gitops.mirrors.mirror import Mirror
from orchgit.gitops.sources.access import remote_of
from orchgit.gitops.sources.fetch import (
    FETCHED_REF,
    fetch,
    fetch_from_mirror,
    list_refs,
    parse_listing,
)
from orchgit.model.base import NS_PER_S
from orchgit.model.source import Source, TagPolicy

_LISTINGS_AT_ONCE = 8
_FETCHES_AT_ONCE = 4
"""git takes memory for each, and a remote may see them all as one client."""

_log = structlog.get_logger(component="gitops")


@dataclass(slots=True)
class _Listing:
    """What a remote answered, as git wrote it, or why it could not be read. `resolved` caches what
    the refs of sources mean in it: most listings are long, and asked for one ref again and again.
    """

    started_s: float
    output: bytes = b""
    error: SourceError | None = None
    resolved: dict[tuple[str, str, bool], ResolvedRef] = field(default_factory=dict)

    def resolve(self, ref: str, tags: TagPolicy) -> ResolvedRef:
        """Returns what a source's ref means. Raises SourceError."""
        if self.error is not None:
            raise self.error
        key = (ref, tags.prefix, tags.prereleases)
        if key not in self.resolved:
            self.resolved[key] = resolve_ref(ref, parse_listing(self.output), tags)
        return self.resolved[key]


@dataclass(slots=True)
class _Shared:
    """What the sources of one remote share. `fetched` is the newest commit that was fetched, and
    the mirror that has it."""

    sources: set[str] = field(default_factory=set)
    listing: _Listing | None = None
    listing_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    fetched: tuple[str, Path] | None = None
    fetch_lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class RemoteReader:
    """Lists and fetches remotes. `wake` makes the loop of a source check it; `server` returns this
    server's name for errors."""

    def __init__(
        self,
        git: GitProcess,
        config: GitopsConfig,
        clock: Clock,
        server: Callable[[], str],
        wake: Callable[[str], None],
    ) -> None:
        self._git = git
        self._config = config
        self._clock = clock
        self._http = HttpListings(clock, git.limits.silence_timeout_s)
        self._server = server
        self._wake = wake
        self._shared: dict[Remote, _Shared] = {}
        self._remotes: dict[str, Remote] = {}
        self._listings = asyncio.Semaphore(_LISTINGS_AT_ONCE)
        self._fetches = asyncio.Semaphore(_FETCHES_AT_ONCE)

    async def resolve(self, source: Source, is_poll: bool) -> ResolvedRef:
        """Returns what the source's ref means in its remote. A poll takes a listing of the last
        interval; any other check lists anew. Raises SourceError and what `remote_of` raises."""
        shared = await self._shared_of(source)
        if is_commit_id(source.ref):
            return ResolvedRef(source.ref, source.ref)
        needed_s = self._clock.monotonic_s()
        if is_poll:
            needed_s -= source.poll_interval_ns / NS_PER_S
        async with shared.listing_lock:
            listing = shared.listing
            if listing is None or listing.started_s < needed_s:
                listing = await self._list(self._remotes[source.name])
                before, shared.listing = shared.listing, listing
                if before is not None and before.output != listing.output:
                    for name in shared.sources - {source.name}:
                        self._wake(name)
        return listing.resolve(source.ref, source.tags)

    async def _shared_of(self, source: Source) -> _Shared:
        if "://" in source.url and not source.url.startswith("file:"):
            remote = remote_of(self._config, source, self._server())
        else:
            remote = await asyncio.to_thread(remote_of, self._config, source, self._server())
        if self._remotes.get(source.name) != remote:
            self.forget(source.name)
            self._remotes[source.name] = remote
        shared = self._shared.setdefault(remote, _Shared())
        shared.sources.add(source.name)
        return shared

    async def _list(self, remote: Remote) -> _Listing:
        async with self._listings:
            listing = _Listing(self._clock.monotonic_s())
            try:
                output = await self._http.list(remote)
                listing.output = output or await list_refs(self._git, remote)
            except SourceError as error:
                listing.error = error
        return listing

    async def fetch(self, source: Source, wanted: ResolvedRef, mirror: Mirror) -> str | None:
        """Fetches a commit that `resolve` found into the source's mirror; returns its id, which is
        another if the ref has moved since. Raises SourceError."""
        remote = self._remotes[source.name]
        shared = self._shared[remote]
        async with shared.fetch_lock:
            if not await self._copied(shared, wanted, mirror):
                async with self._fetches:
                    await fetch(self._git, mirror.path, remote, wanted)
            commit_id = mirror.open().resolve(FETCHED_REF)
            if commit_id is not None:
                shared.fetched = commit_id, mirror.path
        return commit_id

    async def _copied(self, shared: _Shared, wanted: ResolvedRef, mirror: Mirror) -> bool:
        """Returns whether the commit came from the mirror of another source of the remote."""
        if shared.fetched is None or shared.fetched[0] != wanted.commit_id:
            return False
        commit_id, path = shared.fetched
        if path == mirror.path:
            return False
        try:
            await fetch_from_mirror(self._git, mirror.path, path, commit_id)
        except OrchgitError as error:
            _log.info("cannot copy a commit between mirrors", error=str(error))
            return False
        return True

    async def close(self) -> None:
        """Closes the connections to remotes."""
        await self._http.close()

    def forget(self, name: str) -> None:
        """Drops what only this source, which was removed or moved, has needed."""
        remote = self._remotes.pop(name, None)
        shared = self._shared.get(remote) if remote is not None else None
        if remote is not None and shared is not None:
            shared.sources.discard(name)
            if not shared.sources:
                del self._shared[remote]
