"""The server around its raft node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orchgit.clock import boottime_s
from orchgit.raft.ports import SnapshotRef
from orchgit.raft_log.disk import Disk
from orchgit.raft_log.disk_space import DiskSpace
from orchgit.raft_node.committed import Committed
from orchgit.raft_transport.transport import Transport
from orchgit.replication.applier import Applier, Installed
from orchgit.replication.opened_state import OpenedState
from orchgit.replication.snapshots import write_snapshot


@dataclass(frozen=True, slots=True)
class LoopCallbacks:
    """Called on the event loop when something happened on the raft thread."""

    loop: asyncio.AbstractEventLoop
    role_changed: Callable[[bool], None]
    leader_changed: Callable[[], None]
    failed: Callable[[BaseException], None]


class ServerHost:
    """A `NodeHost` with the store as its state machine."""

    def __init__(
        self,
        opened: OpenedState,
        transport: Transport,
        applier: Applier,
        space: DiskSpace,
        disk: Disk,
        callbacks: LoopCallbacks,
    ) -> None:
        self.journal = opened.journal
        self.snapshots = opened.snapshots
        self.transport = transport
        self.space = space
        self._opened = opened
        self._applier = applier
        self._disk = disk
        self._callbacks = callbacks

    def now_s(self) -> float:
        return boottime_s()

    @property
    def can_apply(self) -> bool:
        return self._applier.has_room

    def apply(self, entries: Sequence[Committed]) -> None:
        self._applier.put(entries)

    def install(self, snapshot: SnapshotRef) -> None:
        self._applier.put([Installed(snapshot.index, self._opened.files.snapshot)])

    def write_snapshot(self) -> int:
        return write_snapshot(self._opened.store, self._opened.files.snapshot, self._disk)

    def role_changed(self, leads: bool) -> None:
        self._callbacks.loop.call_soon_threadsafe(self._callbacks.role_changed, leads)

    def leader_changed(self) -> None:
        self._callbacks.loop.call_soon_threadsafe(self._callbacks.leader_changed)

    def failed(self, error: BaseException) -> None:
        self._callbacks.loop.call_soon_threadsafe(self._callbacks.failed, error)
