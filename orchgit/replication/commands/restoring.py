"""A snapshot archive that replaces the whole state."""

from __future__ import annotations

from typing import ClassVar

from orchgit.replication.commands.entry import Entry


class BeginRestore(Entry, tag="begin-restore", kw_only=True):
    """A snapshot will be sent in; another one that was begun is forgotten."""

    since: ClassVar[int] = 2

    restore_id: str


class AddRestoreChunk(Entry, tag="add-restore-chunk", kw_only=True):
    """The next piece of the archive."""

    since: ClassVar[int] = 2

    restore_id: str
    seq: int
    data: bytes


class CommitRestore(Entry, tag="commit-restore", kw_only=True):
    """The archive is complete: it takes the place of the state, if it is whole."""

    since: ClassVar[int] = 2

    restore_id: str
    sha256: str


class AbortRestore(Entry, tag="abort-restore", kw_only=True):
    since: ClassVar[int] = 2

    restore_id: str


RestoreCommand = BeginRestore | AddRestoreChunk | CommitRestore | AbortRestore
