"""The files of a server's replicated state, locked and open: the log, the store, snapshots."""

from __future__ import annotations

import contextlib
import os

from orchgit.directory_lock import lock_directory
from orchgit.errors import InvariantError
from orchgit.raft_log.journal import Journal
from orchgit.raft_log.snapshot_files import FileSnapshots
from orchgit.replication.recovery import StateFiles
from orchgit.replication.replication_config import ReplicationConfig
from orchgit.replication.snapshots import snapshot_file, snapshot_index
from orchgit.state.store import Store


class OpenedState:
    """Recovers what is on disk. Nothing stays open if something cannot be opened."""

    def __init__(self, config: ReplicationConfig) -> None:
        self.files = StateFiles(config.data_dir / "state", config.disk)
        with contextlib.ExitStack() as opened:
            self._lock_fd = lock_directory(config.data_dir, config.data_dir)
            opened.callback(os.close, self._lock_fd)
            self.journal = Journal(
                config.data_dir / "raft",
                config.segment_bytes,
                config.disk,
                lambda: snapshot_index(self.files.snapshot),
            )
            opened.callback(self.journal.close)
            self.files.prepare(self.journal.first_index)
            self.store = Store.open(self.files.store)
            opened.callback(self.store.close)
            self.index, self.log_index = self.store.position()
            """What the store has applied: the index of the state, and of the log."""
            self._check_log_meets_store()
            self.snapshots = FileSnapshots(
                snapshot_file(self.files.snapshot, config.disk), self.journal
            )
            opened.pop_all()

    def _check_log_meets_store(self) -> None:
        journal = self.journal
        if journal.first_index > self.log_index + 1 or journal.last_index < self.log_index:
            raise InvariantError(
                f"cannot start: the state in {self.files.store} is at index {self.log_index}, but "
                f"the log holds {journal.first_index} to {journal.last_index}; restore the data "
                "directory from a backup"
            )

    def discard(self) -> None:
        """The server could not start: closes everything, and says nothing of the store."""
        self.snapshots.close()
        self.store.close()
        self.journal.close()
        os.close(self._lock_fd)

    def close(self, failed: bool = False) -> None:
        """Closes everything; `failed`: the disk is not to be trusted, so nothing is written."""
        self.snapshots.close()
        if not failed:
            self.journal.close()
        self.store.close()
        if not failed:
            self.files.mark_clean()
        os.close(self._lock_fd)
