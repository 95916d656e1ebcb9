"""Releases the claims on CSI volumes of allocations that have ended or are gone.

A node gives its claims back itself; this watcher does it for nodes that are down, and for what a
node or a plugin could not do at the time.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import groupby
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
"""Volumes of one plugin that are released at once."""
_FOLLOWED = ("csi_volumes", "allocations", "nodes")

ReleaseClaim = Callable[[str, str, str], Awaitable[None]]
"""(namespace, volume, allocation). Raises an OrchgitError where it has to be tried again."""


class EndedClaim(NamedTuple):
    namespace: str
    volume_id: str
    alloc_id: str
    plugin_id: str

    @property
    def volume(self) -> tuple[str, str]:
        return self.namespace, self.volume_id


def ended_claims(snapshot: Snapshot) -> list[EndedClaim]:
    """Returns the claims that nothing needs any more, those of one volume together."""
    return [
        EndedClaim(volume.namespace, volume.id, claim.alloc_id, volume.plugin_id)
        for volume in snapshot.csi_volumes.all()
        for claim in volume.claims
        if (found := snapshot.allocations.get(claim.alloc_id)) is None or found.is_client_terminal
    ]


class CsiClaimWatcher:
    """Looks at the claims whenever allocations, nodes or volumes change; a cluster without volumes
    costs nothing. A plugin that hangs holds up the volumes of no other."""

    def __init__(self, store: Store, clock: Clock, release: ReleaseClaim) -> None:
        self._store = store
        self._clock = clock
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
        releasing: dict[tuple[str, str], asyncio.Task[None]] = {}
        turns: defaultdict[str, asyncio.Semaphore] = defaultdict(
            partial(asyncio.Semaphore, _AT_ONCE)
        )
        try:
            while True:
                await self._changed.wait(None)
                for volume in [key for key, work in releasing.items() if work.done()]:
                    releasing.pop(volume).result()
                with self._store.snapshot() as snapshot:
                    ended = ended_claims(snapshot) if self._any else []
                for volume, claims in groupby(ended, lambda each: each.volume):
                    if volume not in releasing:
                        work = asyncio.create_task(self._release_all(list(claims), turns))
                        work.add_done_callback(lambda _: self._changed.set())
                        releasing[volume] = work
        finally:
            for work in releasing.values():
                work.cancel()
            await asyncio.gather(*releasing.values(), return_exceptions=True)

    async def _release_all(
        self, ended: Sequence[EndedClaim], turns: defaultdict[str, asyncio.Semaphore]
    ) -> None:
        """Releases the claims of one volume in turn; after a failure, returns when it is time to
        try again."""
        failed = False
        async with turns[ended[0].plugin_id]:
            for each in ended:
                try:
                    await self._release(each.namespace, each.volume_id, each.alloc_id)
                except OrchgitError as error:
                    failed = True
                    _log.warning("cannot release a claim", volume=each.volume_id, error=str(error))
        if failed:
            await self._clock.sleep(_RETRY_S)
