"""The store: one SQLite file with its writer, its readers and the watch on its changes."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from pathlib import Path

from orchgit.errors import TimedOutError
from orchgit.model.node import Namespace, NodePool
from orchgit.state import connection
from orchgit.state.changes import Changes
from orchgit.state.snapshot import Snapshot, StateReads
from orchgit.state.transaction import NO_INDEX, WriteTxn
from orchgit.state.upgrade import migrate
from orchgit.state.watch import Watch
from orchgit.state.writer_cache import WriterCache

DEFAULT = "default"
"""The built-in namespace, and the built-in node pool of nodes that name none."""
ALL_NODES = "all"
"""The built-in node pool that holds every node."""

_IDLE_READERS = 8
_POLL_S = 0.002


class _Readers:
    """Open connections with their tables, to be used again by any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: list[StateReads] = []
        self._lock = threading.Lock()
        self._closed = False

    def snapshot(self) -> Snapshot:
        return Snapshot(self._take(), self._release)

    def applied_index(self) -> int:
        """Two statements fewer than a snapshot, for callers that wait for an index."""
        reader = self._take()
        try:
            return reader.meta.applied_index()
        finally:
            self._release(reader)

    def _take(self) -> StateReads:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return StateReads(connection.open_reader(self._path))

    def _release(self, reader: StateReads) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < _IDLE_READERS:
                self._idle.append(reader)
                return
        reader.connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for reader in idle:
            reader.connection.close()


class Store:
    """The store in the process that applies the log. Only the applier's thread calls `begin`."""

    def __init__(self, path: Path, writer: sqlite3.Connection) -> None:
        self.path = path
        self._writer = writer
        self._cache = WriterCache()
        self._txn = WriteTxn(writer, self._cache)
        self._readers = _Readers(path)
        self._writer_reads = StateReads(writer)
        reads = self._writer_reads
        self._txn.visible_index = reads.meta.applied_index()
        self.watch = Watch(reads.table_indexes.all(), self._txn.visible_index)
        self._latest: StateReads | None = None

    @classmethod
    def open(cls, path: Path) -> Store:
        """Create the file, or bring it to the newest schema."""
        path.parent.mkdir(parents=True, exist_ok=True)
        writer = connection.open_writer(path)
        migrate(writer)
        _put_built_in(writer)
        return cls(path, writer)

    @property
    def visible_index(self) -> int:
        """The newest index that a snapshot may have; any thread may ask.

        It is the published one (`watch.applied_index`) except between a commit and its `publish`.
        """
        return self._txn.visible_index

    def position(self) -> tuple[int, int]:
        """Returns (applied index of the state, that of the log): for the applier's thread, and
        before it runs."""
        meta = self._writer_reads.meta
        return meta.applied_index(), meta.log_index()

    @staticmethod
    def open_reader(path: Path) -> StoreReader:
        """Open the store in a process that does not write it."""
        return StoreReader(path)

    def snapshot(self) -> Snapshot:
        return self._readers.snapshot()

    def latest(self) -> StateReads:
        """Single reads of the newest state, on the event loop's thread: two reads may see two
        states. A snapshot costs three statements more, each of which gives the interpreter's lock
        away."""
        if self._latest is None:
            self._latest = StateReads(connection.open_reader(self.path))
        return self._latest

    def begin(self, savepoints: bool = True) -> WriteTxn:
        """Begin the transaction for the next entries; `publish` must follow its commit."""
        return self._txn.begin(savepoints)

    def replace_by(self, path: Path) -> Changes:
        """Become a copy of the store in `path`, in one transaction; on the applier's thread.

        Open snapshots stay as they are. The changes name every table, but no keys.
        """
        self._cache.clear()
        self._txn.visible_index = NO_INDEX
        source = sqlite3.connect(path)
        try:
            source.backup(self._writer)
        finally:
            source.close()
        migrate(self._writer)
        self._txn.visible_index = self._writer_reads.meta.applied_index()
        changes = Changes()
        for name, index in self._writer_reads.table_indexes.all().items():
            changes.note(index, name, ())
        return changes

    def publish_replaced(self, changes: Changes, applied_index: int) -> None:
        """As `publish`, after `replace_by`: wakes every waiter."""
        self.publish(changes, applied_index)
        self.watch.note_replaced()

    def publish(self, changes: Changes, applied_index: int) -> None:
        """Wake waiters; on the event loop's thread, after the commit."""
        self.watch.publish(changes, applied_index)

    def close(self) -> None:
        """Close the readers first, then the writer, which moves the WAL into the file."""
        if self._latest is not None:
            self._latest.connection.close()
        self._readers.close()
        self._writer.close()


class StoreReader:
    """Snapshots of a store that another process writes."""

    def __init__(self, path: Path) -> None:
        self._readers = _Readers(path)

    def snapshot(self) -> Snapshot:
        return self._readers.snapshot()

    async def reach(self, index: int, timeout_s: float) -> int:
        """Wait until `index` is applied, polling every 2 ms; returns the applied index.

        Raises TimedOutError.
        """
        deadline_s = time.monotonic() + timeout_s
        while (applied := self._readers.applied_index()) < index:
            if time.monotonic() >= deadline_s:
                raise TimedOutError(
                    f"cannot read the state at index {index}: after {timeout_s:g} s this server "
                    f"has applied {applied}; try again, or ask another server"
                )
            await asyncio.sleep(_POLL_S)
        return applied

    def close(self) -> None:
        self._readers.close()


def _put_built_in(writer: sqlite3.Connection) -> None:
    """Store what every cluster has from the beginning, at index 1."""
    if writer.execute("SELECT 1 FROM meta WHERE key = 'applied_index'").fetchone():
        return
    txn = WriteTxn(writer, WriterCache()).begin()
    txn.begin_entry(1, 0)
    namespace = Namespace(DEFAULT, "Default shared namespace")
    pools = [
        NodePool(ALL_NODES, "Node pool with all nodes in the cluster"),
        NodePool(DEFAULT, "Default node pool"),
    ]
    built_ins: list[Namespace | NodePool] = [namespace, *pools]
    for built_in in built_ins:
        built_in.create_index = built_in.modify_index = 1
    txn.namespaces.put_all([namespace])
    txn.node_pools.put_all(pools)
    txn.end_entry()
    txn.commit(applied_index=0)
