"""Restoring a snapshot: its pieces are log entries, and so is the replacement of the state."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path

from orchgit.errors import ConflictError, InvalidInputError
from orchgit.replication.apply.handler import Handlers
from orchgit.replication.archive import read_archive
from orchgit.replication.commands.restoring import (
    AbortRestore,
    AddRestoreChunk,
    BeginRestore,
    CommitRestore,
)
from orchgit.replication.events import Effects
from orchgit.state import restore
from orchgit.state.transaction import WriteTxn
from orchgit.state.upgrade import migrate


def begin_restore(txn: WriteTxn, command: BeginRestore, effects: Effects) -> None:
    restore.begin(txn, command.restore_id)


def add_restore_chunk(txn: WriteTxn, command: AddRestoreChunk, effects: Effects) -> None:
    _check_current(txn, command.restore_id)
    if command.seq != txn.restore_chunks.count():
        raise ConflictError(
            f"cannot restore: piece {command.seq} came, piece {txn.restore_chunks.count()} was "
            "expected; begin again"
        )
    txn.restore_chunks.put(command.seq, command.data)


def abort_restore(txn: WriteTxn, command: AbortRestore, effects: Effects) -> None:
    if txn.meta.restore_in_progress() == command.restore_id:
        restore.drop(txn)


def commit_restore(txn: WriteTxn, command: CommitRestore, effects: Effects) -> None:
    """Unpack and check the pieces, which all servers hold, and replace the state by them.

    A disk that fails meanwhile does not refuse the entry: its OSError ends this server's applier.
    """
    _check_current(txn, command.restore_id)
    directory = restore.directory_of(txn)
    archive, state = directory / "restoring.archive", directory / "restoring.db"
    try:
        _assemble(txn, command.sha256, archive)
        with archive.open("rb") as file:
            read_archive(file, state)
        _bring_up_to_date(state)
        restore.replace_state(txn, state)
        restore.drop(txn)
        effects.restored = True
    finally:
        for path in (archive, state):
            path.unlink(missing_ok=True)


def _assemble(txn: WriteTxn, sha256: str, archive: Path) -> None:
    digest = hashlib.sha256()
    with archive.open("wb") as out:
        for data in txn.restore_chunks.all():
            digest.update(data)
            out.write(data)
    if digest.hexdigest() != sha256:
        raise InvalidInputError("cannot restore: the pieces are not those of the snapshot")


def _bring_up_to_date(state: Path) -> None:
    """Migrate the state of an older version to this version's schema."""
    connection = sqlite3.connect(state, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = OFF")
        migrate(connection)
    finally:
        connection.close()


def _check_current(txn: WriteTxn, restore_id: str) -> None:
    if txn.meta.restore_in_progress() != restore_id:
        raise ConflictError(
            "cannot restore: another restore has begun meanwhile; wait for it, then begin again"
        )


HANDLERS: Handlers = {
    BeginRestore: begin_restore,
    AddRestoreChunk: add_restore_chunk,
    CommitRestore: commit_restore,
    AbortRestore: abort_restore,
}
