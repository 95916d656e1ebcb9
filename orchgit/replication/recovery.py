"""Whether the store found at start can be trusted, and what to do when it cannot.

SQLite does not fsync here: after the death of the process the system still has its writes, after
the death of the machine it may not. A marker file says in which boot of the machine the store was
last opened, and whether it was closed with everything on disk. A store that may have lost writes is
thrown away and rebuilt from the last fsynced snapshot and the journal.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import structlog

from orchgit.raft_log.disk import DISK, Disk
from orchgit.replication.snapshots import snapshot_file, snapshot_index
from orchgit.state.connection import is_full

_log = structlog.get_logger(component="raft")
_CLEAN = "clean"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_CHECKED_BYTES = 64 << 20
"""Larger stores are checked only by what SQLite notices when it opens them."""


class StateFiles:
    """The files of the state machine in one directory."""

    def __init__(self, directory: Path, disk: Disk = DISK) -> None:
        self._disk = disk
        self.directory = directory
        self.store = directory / "state.db"
        self.snapshot = directory / "snapshot.db"
        self._marker = directory / "opened"

    def prepare(self, first_index: int) -> None:
        """Leave a store that can be opened, or none; mark it as open.

        A store that ends before the log's first entry was overtaken by a received snapshot.
        DiskFullError when there is no room for what has to be done first.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._disk.needing_room(self.directory):
            self._prepare(first_index)

    def _prepare(self, first_index: int) -> None:
        """The marker never says more of the store than is true, whatever is cut off by a crash: a
        store that is not trusted is gone before it is marked, a copied one comes after."""
        if self.store.exists() and not (self._is_trusted() and self._reaches(first_index)):
            _log.warning("rebuilding the state from its snapshot and the log", path=str(self.store))
            self.store.unlink()
        if not self.store.exists():
            for suffix in ("-wal", "-shm"):
                # SQLite would replay the log of the store that was here into the next one.
                self._beside(suffix).unlink(missing_ok=True)
        self._mark(_boot_id())
        if not self.store.exists() and self.snapshot.exists():
            snapshot_file(self.snapshot, self._disk).check()
            fresh = self.store.with_suffix(".new")
            shutil.copyfile(self.snapshot, fresh)
            fresh.replace(self.store)

    def mark_clean(self) -> None:
        """Call after the store was closed: put everything on disk, and say so.

        The write-ahead log is left when another process still reads the store.
        """
        for suffix in ("", "-wal"):
            path = self._beside(suffix)
            if path.exists():
                fd = self._disk.open(path)
                self._disk.sync(fd)
                self._disk.close(fd)
        self._disk.sync_dir(self.directory)
        self._mark(_CLEAN)

    def _mark(self, text: str) -> None:
        """In place, which needs no room; one that is torn is not trusted."""
        fd = self._disk.open(self._marker)
        try:
            self._disk.write(fd, text.encode(), 0)
            self._disk.truncate(fd, len(text))
            self._disk.sync(fd)
        finally:
            self._disk.close(fd)
        self._disk.sync_dir(self.directory)

    def _is_trusted(self) -> bool:
        try:
            marker = self._marker.read_text(errors="replace")
        except FileNotFoundError:
            return False
        return marker in (_CLEAN, _boot_id()) and self._is_sound()

    def _reaches(self, first_index: int) -> bool:
        """A store too young to have an index reaches whatever a new one would."""
        try:
            behind = snapshot_index(self.store) + 1 < first_index
        except sqlite3.DatabaseError:
            return True
        return not (behind and snapshot_index(self.snapshot) + 1 >= first_index)

    def _is_sound(self) -> bool:
        small = self.store.stat().st_size <= _CHECKED_BYTES
        try:
            connection = sqlite3.connect(self.store)
            try:
                query = "PRAGMA quick_check(1)" if small else "PRAGMA schema_version"
                (answer,) = connection.execute(query).fetchone()
                return answer == "ok" or not small
            finally:
                connection.close()
        except sqlite3.DatabaseError as error:
            if is_full(error):
                raise self._disk.full(self.directory) from error
            return False

    def _beside(self, suffix: str) -> Path:
        return self.store.with_name(self.store.name + suffix)


def _boot_id() -> str:
    """Of the running system; without one, no unclean store is trusted."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return "unknown boot " + os.urandom(8).hex()
