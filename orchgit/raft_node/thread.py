"""The raft thread: takes turns of the raft node, and cuts the journal behind snapshots."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from orchgit.errors import DiskFullError
from orchgit.raft_log.journal import Journal
from orchgit.raft_node.node import RaftNode

_LONE_WAIT_S = 60.0
"""A lone member has no heartbeats to send: it sleeps until it is woken."""
_CLUSTER_WAIT_S = 0.02
_PUT_OFF_S = 30.0
"""A snapshot for which there was no room is tried again after that time."""
_log = structlog.get_logger(component="raft")


class RaftThread:
    """Owns the node and the journal. An error of either stops it: nothing more is acknowledged."""

    def __init__(
        self,
        node: RaftNode,
        journal: Journal,
        write_snapshot: Callable[[], int],
        snapshot_index: int,
        snapshot_log_bytes: int,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._node = node
        self._journal = journal
        self._write_snapshot = write_snapshot
        self._snapshot_log_bytes = snapshot_log_bytes
        self._snapshot_index = snapshot_index
        self._on_failure = on_failure
        self._stopping = False
        self._snapshotting: threading.Thread | None = None
        self._snapshot_made = threading.Event()
        self._not_before_s = 0.0
        self._looked_at_sync = -1
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
            while not self._stopping:
                self._node.turn()
                self._care_for_snapshots()
                # The turn may have taken the wake-up of whoever wants the thread to stop.
                if not self._stopping:
                    self._node.wait(_LONE_WAIT_S if self._node.is_alone else _CLUSTER_WAIT_S)
        except BaseException as error:  # noqa: BLE001 (whatever it is, nothing may be acknowledged after)
            self._on_failure(error)

    def _care_for_snapshots(self) -> None:
        """Compaction waits for the snapshot to be on disk; both run beside the log."""
        if self._snapshotting is not None:
            if not self._snapshot_made.is_set():
                return
            self._snapshotting.join()
            self._snapshotting = None
            self._looked_at_sync = -1
            # The entry of its index stays: whoever gets the snapshot must know its term.
            self._journal.compact(self._snapshot_index - 1)
        if self._looked_at_sync == self._journal.syncs and not self._not_before_s:
            return
        self._looked_at_sync = self._journal.syncs
        waits = time.monotonic() < self._not_before_s
        if not waits and self._journal.bytes_after(self._snapshot_index) > self._snapshot_log_bytes:
            self._snapshot_made.clear()
            self._snapshotting = threading.Thread(target=self._snapshot, name="snapshot")
            self._snapshotting.start()

    def _snapshot(self) -> None:
        try:
            self._snapshot_index = self._write_snapshot()
        except DiskFullError as error:
            self._not_before_s = time.monotonic() + _PUT_OFF_S
            _log.warning("snapshot put off; the log stays as long as it is", error=str(error))
        except BaseException as error:  # noqa: BLE001 (a disk that cannot hold a snapshot is failing)
            self._on_failure(error)
        self._snapshot_made.set()
        self._node.wake()
