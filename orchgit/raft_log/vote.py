"""The term and the vote on disk: written in place, so that a full disk does not silence a member.

The file has two slots, each with the same vote, a sequence number and a checksum. A vote goes to
one slot, is synced, and goes to the other: whichever write is torn, and whichever slot is damaged
later, the other one has the newest vote that any member can have heard of.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from orchgit.errors import DiskFullError, InvariantError
from orchgit.raft.ports import Vote
from orchgit.raft_log.checked_file import damaged, load, sealed, unsealed
from orchgit.raft_log.disk import Disk

_SLOT_BYTES = 4096
"""A page: writing one slot touches nothing of the other on any usual disk."""
_LENGTH_BYTES = 2


class VoteFile:
    """`store` needs no free space once `reserve` has found some, except on file systems that write
    every change to a new place (btrfs, ZFS)."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._sequence = 0
        self._has_slots = False
        self._weak = 0
        """The slot that may be torn; the other one is on disk."""
        self.value = self._load()

    # -- reading ---------------------------------------------------------------------------------

    def _load(self) -> Vote:
        data = load(self._disk, self._path)
        if data is None:
            return Vote()
        if len(data) != 2 * _SLOT_BYTES:
            # The older format: one record, replaced whole.
            body = unsealed(data)
            if body is None:
                raise damaged(self._path)
            return msgspec.msgpack.decode(body, type=Vote)
        self._has_slots = True
        slots = [_decoded(data[:_SLOT_BYTES]), _decoded(data[_SLOT_BYTES:])]
        found = [(slot, number) for number, slot in enumerate(slots) if slot is not None]
        if not found:
            raise damaged(self._path)
        (self._sequence, vote), newest = max(found, key=lambda one: one[0][0])
        self._weak = 1 - newest
        return vote

    # -- writing ---------------------------------------------------------------------------------

    def reserve(self) -> None:
        """Writes both slots at start, with what was read: the process before this one may have died
        between them, or of a failed sync. Put off if there is no room."""
        with contextlib.suppress(DiskFullError):
            try:
                self._write(self.value)
            except OSError as error:
                raise InvariantError(
                    f"cannot write {self._path}: {error.strerror or error}; look at the disk, then "
                    "start the server again"
                ) from error

    def store(self, vote: Vote) -> None:
        """Durable on return; after a DiskFullError the vote counts as not given."""
        self._write(vote)
        self.value = vote

    def _write(self, vote: Vote) -> None:
        self._sequence += 1
        record = sealed(msgspec.msgpack.encode((self._sequence, vote)))
        slot = len(record).to_bytes(_LENGTH_BYTES, "little") + record
        if self._has_slots:
            self._overwrite(slot)
        else:
            self._disk.store(self._path, slot.ljust(_SLOT_BYTES, b"\0") * 2)
            self._has_slots = True

    def _overwrite(self, slot: bytes) -> None:
        fd = self._disk.open(self._path)
        try:
            for number in (self._weak, 1 - self._weak):
                self._weak = number
                with self._disk.needing_room(self._path.parent):
                    self._disk.write(fd, slot, number * _SLOT_BYTES)
                    self._disk.sync(fd)
        finally:
            self._disk.close(fd)


def _decoded(slot: bytes) -> tuple[int, Vote] | None:
    """None: torn, or damaged."""
    end = _LENGTH_BYTES + int.from_bytes(slot[:_LENGTH_BYTES], "little")
    body = unsealed(slot[_LENGTH_BYTES:end])
    return None if body is None else msgspec.msgpack.decode(body, type=tuple[int, Vote])
