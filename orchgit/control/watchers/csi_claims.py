"""Releases the claims on CSI volumes of allocations that have ended or are gone.

A node gives its claims back itself; this watcher does it for nodes that are down, and for what a
node or a plugin could not do at the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from operator import itemgetter

import structlog

from orchgit.clock import Clock
from orchgit.control.wakeup import Wakeup
from orchgit.errors import OrchgitError
from orchgit.replication.events import AppliedBatch
from orchgit.state.snapshot import Snapshot
from orchgit.state.store import Store

_log = structlog.get_logger(component="control")

_RETRY_S = 5.0
_FOLLOWED = ("csi_volumes", "allocations", "nodes")

ReleaseClaim = Callable[[str, str, str], Awaitable[None]]
"""(namespace, volume, allocation). Raises an OrchgitError where it has to be tried again."""


def ended_claims(snapshot: Snapshot) -> list[tuple[str, str, str]]:
    """Returns (namespace, volume, allocation) of the claims that nothing needs any more."""
    return [
        (volume.namespace, volume.id, claim.alloc_id)
        for volume in snapshot.csi_volumes.all()
        for claim in volume.claims
        if (found := snapshot.allocations.get(claim.alloc_id)) is None or found.is_client_terminal
    ]


class CsiClaimWatcher:
    """Looks at the claims whenever allocations, nodes or volumes change; a cluster without volumes
    costs nothing."""

    def __init__(self, store: Store, clock: Clock, release: ReleaseClaim) -> None:
        self._store = store
        self._release = release
        self._changed = Wakeup(clock)
        self._any = False

    def restore(self, snapshot: Snapshot) -> None:
        self._any = bool(snapshot.csi_volumes.all())
        self._changed.set()

    def take(self, batch: AppliedBatch) -> None:
        self._any = self._any or bool(batch.changed.get("csi_volumes"))
        if self._any and any(batch.changed.get(name) for name in _FOLLOWED):
            self._changed.set()

    async def run(self) -> None:
        failed = False
        while True:
            await self._changed.wait(_RETRY_S if failed else None)
            with self._store.snapshot() as snapshot:
                ended = ended_claims(snapshot) if self._any else []
            # At once, since a plugin that hangs is waited for; one volume's claims in turn.
            released = await asyncio.gather(
                *(self._release_all(list(claims)) for _, claims in groupby(ended, itemgetter(0, 1)))
            )
            failed = not all(released)

    async def _release_all(self, ended: Sequence[tuple[str, str, str]]) -> bool:
        """Returns whether all claims could be released."""
        done = True
        for namespace, volume_id, alloc_id in ended:
            try:
                await self._release(namespace, volume_id, alloc_id)
            except OrchgitError as error:
                done = False
                _log.warning("cannot release a claim", volume=volume_id, error=str(error))
        return done
