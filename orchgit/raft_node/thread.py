"""The raft thread: takes turns of the raft node, and cuts the journal behind snapshots."""

from __future__ import annotations

import threading
import time

import structlog

from orchgit.errors import DiskFullError
from orchgit.raft_node.host import NodeHost
from orchgit.raft_node.node import RaftNode

_ALONE_WAIT_S = 60.0
"""A lone member has no heartbeats to send: it sleeps until it is woken."""
_CLUSTER_WAIT_S = 0.02
_RETRY_SNAPSHOT_S = 30.0
"""A snapshot for which there was no room is tried again after that time."""
_log = structlog.get_logger(component="raft")


class RaftThread:
    """Owns the node and the journal. An error of either stops the thread: nothing more is
    acknowledged.

    A snapshot is made when the log behind the newest one, of `snapshot_index`, has more than
    `snapshot_log_bytes`.
    """

    def __init__(
        self, node: RaftNode, host: NodeHost, snapshot_index: int, snapshot_log_bytes: int
    ) -> None:
        self._node = node
        self._host = host
        self._journal = host.journal
        self._snapshot_log_bytes = snapshot_log_bytes
        self._snapshot_index = snapshot_index
        self._stopping = False
        self._snapshotting: threading.Thread | None = None
        self._snapshot_made = threading.Event()
        self._not_before_s = 0.0
        self._checked_syncs = -1
        self._thread = threading.Thread(target=self._run, name="raft", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the thread has ended and all that was appended is durable."""
        self._stopping = True
        self._node.wake()
        self._thread.join()
        if self._snapshotting is not None:
            self._snapshotting.join()

    def _run(self) -> None:
        try:
            self._tell_snapshot()
            while not self._stopping:
                self._node.turn()
                self._compact()
                # The turn may have consumed the wake-up of `stop`.
                if not self._stopping:
                    alone = self._node.status.is_alone
                    self._node.wait(_ALONE_WAIT_S if alone else _CLUSTER_WAIT_S)
        except BaseException as error:  # noqa: BLE001 (whatever it is, nothing may be acknowledged after)
            self._host.failed(error)

    def _compact(self) -> None:
        """Cuts the journal behind a snapshot that is on disk, and starts the next snapshot; both
        run beside the log."""
        if self._snapshotting is not None:
            if not self._snapshot_made.is_set():
                return
            self._snapshotting.join()
            self._snapshotting = None
            self._checked_syncs = -1
            # The entry of its index stays: a member that gets the snapshot must know its term.
            self._journal.compact(self._snapshot_index - 1)
            self._tell_snapshot()
        if self._checked_syncs == self._journal.syncs and not self._not_before_s:
            return
        self._checked_syncs = self._journal.syncs
        waits = time.monotonic() < self._not_before_s
        if not waits and self._journal.bytes_after(self._snapshot_index) > self._snapshot_log_bytes:
            self._snapshot_made.clear()
            self._snapshotting = threading.Thread(target=self._snapshot, name="snapshot")
            self._snapshotting.start()

    def _tell_snapshot(self) -> None:
        index = self._snapshot_index
        if self._journal.first_index <= index <= self._journal.last_index:
            self._node.status.last_snapshot = index, self._journal.term(index)

    def _snapshot(self) -> None:
        try:
            self._snapshot_index = self._host.write_snapshot()
        except DiskFullError as error:
            self._not_before_s = time.monotonic() + _RETRY_SNAPSHOT_S
            _log.warning("snapshot put off; the log stays as long as it is", error=str(error))
        except BaseException as error:  # noqa: BLE001 (a disk that cannot hold a snapshot is failing)
            self._host.failed(error)
        self._snapshot_made.set()
        self._node.wake()
