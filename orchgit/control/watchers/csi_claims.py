"""Releases the claims on CSI volumes of allocations that have ended or are gone.

A node gives its claims back itself; this watcher does it for nodes that are down, and for what a
node or a plugin could not do at the time.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

import structlog

from orchgit.clock import Clock
from orchgit.control.wakeup import Wakeup
from orchgit.errors import OrchgitError
from orchgit.replication.events import AppliedBatch
from orchgit.state.snapshot import Snapshot
from orchgit.state.store import Store

_log = structlog.get_logger(component="control")

_RETRY_S = 5.0
_AT_ONCE = 8
"""Volumes of one plugin whose claims are released at once."""
_REST_FACTOR = 10.0
_REST_MAX_S = 2.0

ReleaseClaim = Callable[[str, str, str], Awaitable[None]]
"""(namespace, volume, allocation). Raises an OrchgitError where it has to be tried again."""
VolumeKey = tuple[str, str]
"""Namespace and id."""


class VolumeClaims(NamedTuple):
    """Claims on one volume: its plugin, and the allocations that have them."""

    plugin_id: str
    alloc_ids: list[str]


def all_claims(snapshot: Snapshot) -> dict[VolumeKey, VolumeClaims]:
    return {
        (volume.namespace, volume.id): VolumeClaims(
            volume.plugin_id, [claim.alloc_id for claim in volume.claims]
        )
        for volume in snapshot.csi_volumes.all()
    }


def ended_claims(
    snapshot: Snapshot, claims: dict[VolumeKey, VolumeClaims]
) -> dict[VolumeKey, VolumeClaims]:
    """Returns those of the claims that nothing needs any more."""

    def has_ended(alloc_id: str) -> bool:
        found = snapshot.allocations.get(alloc_id)
        return found is None or found.is_client_terminal

    ended = {
        key: VolumeClaims(plugin_id, [each for each in alloc_ids if has_ended(each)])
        for key, (plugin_id, alloc_ids) in claims.items()
    }
    return {key: found for key, found in ended.items() if found.alloc_ids}


class CsiClaimWatcher:
    """Looks at all claims whenever a volume or the allocation of a claim changes, in a thread;
    other changes cost nothing. A plugin that hangs holds up the volumes of no other."""

    def __init__(self, store: Store, clock: Clock, release: ReleaseClaim) -> None:
        self._store = store
        self._clock = clock
        self._release = release
        self._changed = Wakeup(clock)
        self._claimed: set[str] | None = None
        """Allocations with a claim; None while that is not known."""
        self._under_way: set[VolumeKey] = set()
        """Volumes whose claims are being released, or wait to be tried again."""
        self._turns: defaultdict[str, asyncio.Semaphore]
        self._turns = defaultdict(partial(asyncio.Semaphore, _AT_ONCE))
        """By plugin."""

    def restore(self, snapshot: Snapshot) -> None:
        """There is nothing to restore: `run` reads the state first."""

    def take(self, batch: AppliedBatch) -> None:
        changed = batch.changed.get("allocations", ())
        ended = bool(changed) if self._claimed is None else not self._claimed.isdisjoint(changed)
        if ended or batch.changed.get("csi_volumes"):
            self._changed.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as releases:
            while True:
                began_s = self._clock.monotonic_s()
                self._claimed = None  # allocations that end while the claims are read count
                claims, ended = await asyncio.to_thread(self._read)
                self._claimed = {
                    alloc_id for each in claims.values() for alloc_id in each.alloc_ids
                }
                for key in ended.keys() - self._under_way:
                    self._under_way.add(key)
                    releases.create_task(self._release_all(key, ended[key]))
                spent_s = self._clock.monotonic_s() - began_s
                await self._clock.sleep(min(_REST_MAX_S, spent_s * _REST_FACTOR))
                await self._changed.wait(None)

    def _read(self) -> tuple[dict[VolumeKey, VolumeClaims], dict[VolumeKey, VolumeClaims]]:
        """Returns all claims, and the ended ones."""
        with self._store.snapshot() as snapshot:
            claims = all_claims(snapshot)
            return claims, ended_claims(snapshot, claims)

    async def _release_all(self, key: VolumeKey, ended: VolumeClaims) -> None:
        """Releases the claims of one volume in turn: a plugin that hangs is waited for. Later looks
        at the claims again."""
        failed = False
        async with self._turns[ended.plugin_id]:
            for alloc_id in ended.alloc_ids:
                try:
                    await self._release(*key, alloc_id)
                except OrchgitError as error:
                    failed = True
                    _log.warning("cannot release a claim", volume=key[1], error=str(error))
        if failed:
            await self._clock.sleep(_RETRY_S)
        self._under_way.discard(key)
        self._changed.set()
