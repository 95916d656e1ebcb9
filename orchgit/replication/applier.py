"""The applier thread: the sole writer of the store. Many committed entries, one transaction."""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orchgit.raft_log.disk import DISK, Disk
from orchgit.raft_log.disk_space import RETRY_S, STATE, DiskSpace
from orchgit.raft_node.committed import Committed
from orchgit.raft_node.proposal import Proposal
from orchgit.replication.events import Effects
from orchgit.replication.machine import apply_entry
from orchgit.replication.snapshots import store_members
from orchgit.state.changes import Changes
from orchgit.state.connection import is_full
from orchgit.state.store import Store
from orchgit.state.transaction import MustStartOver, WriteTxn

_MAX_ENTRIES = 1024
_MAX_BYTES = 8 << 20
_MAX_WAITING_BYTES = 32 << 20


@dataclass(slots=True)
class Installed:
    """A snapshot of the whole state, received from the leader, takes the place of what is there."""

    index: int
    path: Path
    payload: None = None


@dataclass(slots=True)
class Outcome:
    """One committed transaction."""

    index: int
    changes: Changes
    effects: Effects
    answers: list[tuple[Proposal, int, object]] = field(default_factory=list)
    """(proposal, index, result or error)."""
    elects: bool = False
    replaced: bool = False
    """The whole state is another one: `changes` names every table, but no keys."""
    offset: int = 0
    """Index of the state minus index of the log."""


class Applier:
    """`on_applied` and `on_failure` are called on the applier's thread.

    A full disk is no failure: what does not fit is rolled back, and tried again when there is room.
    """

    def __init__(
        self,
        store: Store,
        on_applied: Callable[[Outcome], object],
        on_failure: Callable[[BaseException], object],
        on_room: Callable[[], object],
        space: DiskSpace | None = None,
        disk: Disk = DISK,
    ) -> None:
        self._space = space or DiskSpace()
        self._disk = disk
        self._store = store
        self._on_applied = on_applied
        self._on_failure = on_failure
        self._on_room = on_room
        self._waiting: deque[Committed | Installed] = deque()
        self._waiting_bytes = 0
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="applier", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when what was handed over has been applied, as far as there is room for it."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    @property
    def has_room(self) -> bool:
        return self._waiting_bytes < _MAX_WAITING_BYTES

    def put(self, entries: Sequence[Committed | Installed]) -> None:
        """Hand over entries in log order; from the raft thread."""
        with self._changed:
            self._waiting.extend(entries)
            self._waiting_bytes += sum(len(entry.payload or b"") for entry in entries)
            self._changed.notify()

    def _run(self) -> None:
        try:
            while batch := self._take():
                outcome = self._fitting(batch)
                if outcome is None:
                    return
                self._on_applied(outcome)
        except BaseException as error:  # noqa: BLE001 (whatever it is, nothing may be applied after)
            self._on_failure(error)

    def _fitting(self, batch: list[Committed] | Installed) -> Outcome | None:
        """As soon as there is room for it; None when stopping: the log has it."""
        while True:
            try:
                outcome = (
                    self._install(batch)
                    if isinstance(batch, Installed)
                    else apply_batch(self._store, batch)
                )
            except (sqlite3.OperationalError, OSError) as error:
                if not is_full(error):
                    raise
                self._space.lacks(STATE, self._disk.full(self._store.path.parent))
                with self._changed:
                    if self._changed.wait_for(lambda: self._stopping, RETRY_S):
                        return None
            else:
                self._space.suffices(STATE)
                return outcome

    def _take(self) -> list[Committed] | Installed:
        """The next entries, or a snapshot; empty when stopping and none are left."""
        with self._changed:
            while not self._waiting and not self._stopping:
                self._changed.wait()
            if self._waiting and isinstance(first := self._waiting[0], Installed):
                self._waiting.popleft()
                return first
            had_room = self.has_room
            batch: list[Committed] = []
            size = 0
            while self._waiting and len(batch) < _MAX_ENTRIES and size < _MAX_BYTES:
                entry = self._waiting[0]
                if isinstance(entry, Installed):
                    break
                self._waiting.popleft()
                size += len(entry.payload or b"")
                batch.append(entry)
            self._waiting_bytes -= size
        if not had_room and self.has_room:
            self._on_room()
        return batch

    def _install(self, snapshot: Installed) -> Outcome:
        changes = self._store.replace_by(snapshot.path)
        index, log_index = self._store.position()
        return Outcome(index, changes, Effects(), replaced=True, offset=index - log_index)


def apply_batch(store: Store, batch: Sequence[Committed]) -> Outcome:
    """All entries in one transaction, which is committed when this returns.

    Savepoints are made only for a batch that turned out to need them: the log is deterministic,
    what was applied before the one that had to be undone comes out the same again.
    """
    try:
        return _apply_in(store.begin(savepoints=False), batch)
    except MustStartOver:
        return _apply_in(store.begin(), batch)


def _apply_in(txn: WriteTxn, batch: Sequence[Committed]) -> Outcome:
    try:
        effects = Effects()
        answers: list[tuple[Proposal, int, object]] = []
        for entry in batch:
            result: object = None
            if entry.payload is not None:
                result = apply_entry(txn, entry.index + txn.offset, entry.payload, effects)
            if entry.members is not None:
                store_members(txn, entry.index, entry.members)
            index = entry.index + txn.offset
            answers.extend((proposal, index, result) for proposal in entry.proposals)
        changes = txn.commit(batch[-1].index + txn.offset)
    except BaseException:
        txn.rollback()
        raise
    return Outcome(
        batch[-1].index + txn.offset,
        changes,
        effects,
        answers,
        elects=any(entry.elects for entry in batch),
        replaced=effects.restored,
        offset=txn.offset,
    )
