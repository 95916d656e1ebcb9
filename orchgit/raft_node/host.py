"""What a raft node needs of its surroundings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from orchgit.raft.ports import SnapshotRef, Snapshots
from orchgit.raft_log.disk_space import DiskSpace
from orchgit.raft_log.journal import Journal
from orchgit.raft_node.committed import Committed
from orchgit.raft_transport.transport import Transport


class NodeHost(Protocol):
    """The server around a node: its devices, and the state machine that applies the log. All
    methods but `write_snapshot` are called on the raft thread and return at once."""

    @property
    def journal(self) -> Journal: ...
    @property
    def snapshots(self) -> Snapshots: ...
    @property
    def transport(self) -> Transport: ...
    @property
    def space(self) -> DiskSpace: ...

    def now_s(self) -> float:
        """Returns the time by a clock that goes on while the machine is suspended."""
        ...

    @property
    def can_apply(self) -> bool:
        """The state machine takes more entries now; it wakes the node when it does again."""
        ...

    def apply(self, entries: Sequence[Committed]) -> None:
        """Takes committed entries, in the order of the log."""

    def install(self, snapshot: SnapshotRef) -> None:
        """A snapshot was received and takes the place of the state, before further entries."""

    def write_snapshot(self) -> int:
        """Makes a snapshot of the state, on a thread of its own; returns its index. DiskFullError:
        there is no room now."""
        ...

    def role_changed(self, leads: bool) -> None:
        """This member won an election, or lost the leadership."""

    def leader_changed(self) -> None:
        """Another member leads, or none."""

    def failed(self, error: BaseException) -> None:
        """The log or a snapshot cannot be written: nothing more may be acknowledged."""
