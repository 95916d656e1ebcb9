"""Exchanges git objects with other servers: fetches what a mirror lacks, sends what it has."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

import structlog

from orchgit.errors import NotFoundError, OrchgitError, UnavailableError
from orchgit.gitops.git.process import GitProcess
from orchgit.gitops.mirrors.maintenance import Maintenance
from orchgit.gitops.mirrors.mirror import Mirror, MirrorStore
from orchgit.gitops.mirrors.packs import known_to, lacking, make_pack, take_pack, with_keep_alives
from orchgit.gitops.mirrors.peers import Peer, PeerClient, Peers
from orchgit.wire.messages import PackFrame

_log = structlog.get_logger(component="gitops")

_FETCHES_AT_ONCE = 2
_HOLDS_AT_ONCE = 4
"""Counted apart, so that a push, for which the leader waits, does not queue behind catching up."""
_PACKS_AT_ONCE = 4


@dataclass(slots=True)
class ExchangeCounts:
    """What was fetched from other servers and sent to them since the start. The field names are
    those of metrics."""

    fetches: int = 0
    failed_fetches: int = 0
    packs_sent: int = 0
    bytes_sent: int = 0


class PackExchange:
    """Bounds how many packs are fetched and sent at once, since each costs git memory."""

    def __init__(
        self,
        git: GitProcess,
        mirrors: MirrorStore,
        maintenance: Maintenance,
        peers: Peers,
        calls: PeerClient,
    ) -> None:
        self._git = git
        self._mirrors = mirrors
        self._maintenance = maintenance
        self._peers = peers
        self._calls = calls
        self._fetching = asyncio.Semaphore(_FETCHES_AT_ONCE)
        self._holding = asyncio.Semaphore(_HOLDS_AT_ONCE)
        self._sending = asyncio.Semaphore(_PACKS_AT_ONCE)
        self.counts = ExchangeCounts()

    @property
    def own_name(self) -> str:
        """This server's name in errors."""
        return self._peers.own_name

    def others(self) -> frozenset[str]:
        """Returns the RPC addresses of the other servers."""
        return frozenset(peer.address for peer in self._peers.others())

    async def fetch_from_any(self, mirror: Mirror, missing: frozenset[str]) -> None:
        """Fetches missing objects, asking each server for what the ones before it did not have.

        Raises UnavailableError if a server that may have the rest was not reached, and
        NotFoundError if all servers answered and none has it.
        """
        unasked: list[str] = []
        peers = [peer for peer in self._peers.others() if peer.address]
        for peer in peers:
            try:
                async with self._fetching:
                    await self._fetch(mirror, peer, missing)
            except NotFoundError:
                continue
            except OrchgitError as error:
                unasked.append(f"{peer} ({error})")
            missing = await lacking(self._git, mirror, missing)
            if not missing:
                return
        raise _still_lacking(mirror.name, missing, peers, unasked, self.own_name)

    async def hold(self, mirror: Mirror, wants: Sequence[str], address: str) -> None:
        """Fetches objects from the server at `address`; returns when they are here and on disk."""
        async with mirror.fetching:
            missing = await lacking(self._git, mirror, wants)
            if missing:
                async with self._holding:
                    await self._fetch(mirror, Peer(address), missing)
            missing = await lacking(self._git, mirror, wants)
        if missing:
            raise UnavailableError(f"cannot store {len(missing)} objects: {address} lacks them too")

    async def _fetch(self, mirror: Mirror, peer: Peer, missing: frozenset[str]) -> None:
        self.counts.fetches += 1
        try:
            haves = await asyncio.to_thread(known_to, mirror)
            frames = self._calls.fetch_pack(peer.address, mirror.name, sorted(missing), haves)
            await take_pack(self._git, mirror, str(peer), missing, frames)
        except OrchgitError:
            self.counts.failed_fetches += 1
            raise
        self._maintenance.after_write(mirror)
        _log.info("fetched from a server", source=mirror.name, server=str(peer))

    async def pack(
        self, source: str, wants: Sequence[str], haves: Sequence[str]
    ) -> AsyncGenerator[PackFrame, None]:
        """Yields which of the wants are missing here, then a pack with the others, and empty frames
        while git takes long."""
        frames = with_keep_alives(self._frames(source, wants, haves))
        async with contextlib.aclosing(frames):
            async for frame in frames:
                self.counts.bytes_sent += len(frame.data)
                yield frame

    async def _frames(
        self, source: str, wants: Sequence[str], haves: Sequence[str]
    ) -> AsyncGenerator[PackFrame, None]:
        async with self._sending:
            frames = make_pack(self._git, self._mirrors.existing(source), wants, haves)
            async with contextlib.aclosing(frames):
                async for frame in frames:
                    yield frame
            self.counts.packs_sent += 1


def _still_lacking(
    name: str, missing: frozenset[str], peers: Sequence[Peer], unasked: Sequence[str], own: str
) -> OrchgitError:
    what = f"{len(missing)} objects of repository {name!r} (commit {min(missing)[:12]}, ...)"
    if unasked:
        return UnavailableError(
            f"cannot use {what} on {own} yet: they are on servers that do not answer: "
            f"{'; '.join(unasked)}"
        )
    asked = ", ".join(str(peer) for peer in peers) or "there is no other server"
    return NotFoundError(
        f"cannot find {what}: {own} lacks them, and so do the others ({asked}); push the whole "
        "history again"
    )
