"""One file of the journal: records one after the other, each checked by its own CRC-32C.

    header:  magic (8)
    record:  payload length (4) | CRC-32C of what follows (4) | term (8) | index (8) | payload
    end:     a length of 0 (the file is allocated ahead), or the end of the file

Integers are little-endian. Indexes inside a segment are consecutive. The highest bit of the length
is set in the first record of each write: all records before it were on disk when it was written, so
where one of them is damaged, it was no torn write that did it.
"""

from __future__ import annotations

import enum
import struct
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

from crc32c import crc32c

from orchgit.errors import InvariantError
from orchgit.raft.ports import Record
from orchgit.raft_log.disk import Disk

MAGIC = b"OGJRNL\x00\x01"
_HEAD = struct.Struct("<II")
_STAMP = struct.Struct("<QQ")
HEAD_SIZE = _HEAD.size + _STAMP.size
MAX_PAYLOAD = 1 << 30
_BEGINS = 1 << 31
_PART = 1 << 20
_ZEROS_AHEAD = 128 << 10
_FAR = 1 << 24


class Ending(enum.Enum):
    """What follows the last good record of a file."""

    CLEAN = "nothing"
    TORN = "a write that was cut off"
    DAMAGED = "records that were on disk before one of them was damaged"


def encode_record(term: int, index: int, payload: bytes, begins: bool = False) -> bytes:
    stamp = _STAMP.pack(term, index)
    length = len(payload) | (_BEGINS if begins else 0)
    return _HEAD.pack(length, crc32c(payload, crc32c(stamp))) + stamp + payload


def decode_record(data: bytes, offset: int = 0) -> tuple[Record, bool] | None:
    """Returns the record at `offset`, and whether a write began with it; None if there is no whole
    record."""
    if offset < 0 or len(data) < offset + HEAD_SIZE:
        return None
    length, checksum = _HEAD.unpack_from(data, offset)
    begins, length = bool(length & _BEGINS), length & ~_BEGINS
    start = offset + HEAD_SIZE
    payload = data[start : start + length]
    stamp = data[offset + _HEAD.size : start]
    if len(payload) < length or crc32c(payload, crc32c(stamp)) != checksum:
        return None
    term, index = _STAMP.unpack(stamp)
    return Record(index, term, payload), begins


class Segment:
    """The positions of the records in one file; the payloads stay on disk."""

    def __init__(self, disk: Disk, path: Path, first_index: int) -> None:
        self.path = path
        self.first_index = first_index
        self.offsets = array("Q")
        self.terms = array("Q")
        self._kinds = bytearray()
        """The first byte of each payload."""
        self.end = len(MAGIC)
        """Where the next record goes."""
        self._disk = disk
        self._fd = disk.open(path)
        self._reserved = 0
        self._zeroed = 0
        """Up to where the reserved space has been written."""
        self._last_write = self.end

    @property
    def last_index(self) -> int:
        """One less than `first_index` while the segment is empty."""
        return self.first_index + len(self.offsets) - 1

    # -- start -----------------------------------------------------------------------------------

    def scan(self) -> Ending:
        """Finds the records, and whether any later record was lost that had been on disk."""
        self._reserved = self._disk.size(self._fd)
        if self._disk.read(self._fd, len(MAGIC), 0) == MAGIC:
            while found := self._next():
                record, begins = found
                if begins:
                    self._last_write = self.end
                self._note(record)
        return self._ending()

    def _next(self) -> tuple[Record, bool] | None:
        """Returns the record of the next index, if it is whole."""
        head = self._disk.read(self._fd, HEAD_SIZE, self.end)
        if len(head) < HEAD_SIZE:
            return None
        length = _HEAD.unpack_from(head)[0] & ~_BEGINS
        _, index = _STAMP.unpack_from(head, _HEAD.size)
        if index != self.last_index + 1 or length > MAX_PAYLOAD:
            return None
        return decode_record(head + self._disk.read(self._fd, length, self.end + HEAD_SIZE))

    def _ending(self) -> Ending:
        start = self.end if self.offsets else 0
        rest = b"".join(self._parts(start)).rstrip(b"\0")
        if not rest or rest == MAGIC:
            return Ending.CLEAN
        return Ending.DAMAGED if self._holds_later_write(rest) else Ending.TORN

    def _parts(self, offset: int) -> Iterator[bytes]:
        """Reads from `offset` on, up to the last byte that is not zero."""
        zeros: list[bytes] = []
        while part := self._disk.read(self._fd, _PART, offset):
            offset += len(part)
            zeros.append(part)
            if part.count(0) < len(part):
                yield from zeros
                zeros.clear()

    def _holds_later_write(self, rest: bytes) -> bool:
        """Returns whether a record was written after the missing one had been synced."""
        expected = self.last_index + 1
        for offset in _places_of_indexes(rest, expected + 1, expected + _FAR):
            found = decode_record(rest, offset)
            if found is not None and found[1]:
                return True
        return False

    def renew(self) -> None:
        """Cuts what is no record, and writes the last write again.

        The process that made it may have died of a failed sync, after which the system keeps the
        pages as if they were on disk: only writing them anew tells.
        """
        data = self._disk.read(self._fd, self.end - self._last_write, self._last_write)
        self._disk.truncate(self._fd, self.end)
        self._reserved = self._zeroed = self.end
        self._disk.write(self._fd, MAGIC, 0)
        self._disk.write(self._fd, data, self._last_write)
        self.sync()

    # -- writing ---------------------------------------------------------------------------------

    def reserve(self, size: int, likes: int) -> None:
        """Reserves space for `size` more bytes of records; a new file gets its header."""
        needs = self.end + size
        if needs <= self._reserved:
            return
        is_new = self._reserved == 0
        self._reserved = self._disk.reserve(
            self._fd, self.path.parent, self._reserved, needs, likes
        )
        if is_new:
            self._disk.write(self._fd, MAGIC, 0)

    def append(self, records: Sequence[Record], likes: int) -> None:
        """One write for all of them; nothing is durable before the file is synced."""
        first = records[0]
        parts = [encode_record(first.term, first.index, first.payload, begins=True)]
        parts += [encode_record(one.term, one.index, one.payload) for one in records[1:]]
        size = sum(map(len, parts))
        self.reserve(size, likes)
        zeroed = self._zeroed_by(self.end + size)
        parts.append(bytes(max(0, zeroed - self.end - size)))
        self._disk.write(self._fd, b"".join(parts), self.end)
        self._zeroed = zeroed
        self._last_write = self.end
        for record in records:
            self._note(record)

    def _zeroed_by(self, end: int) -> int:
        """Now and then a write has zeros behind its records, which end there. The first write to
        reserved space changes what the file system notes of the file, and syncing that takes longer
        than syncing the records."""
        return self._zeroed if end <= self._zeroed else min(self._reserved, end + _ZEROS_AHEAD)

    def _note(self, record: Record) -> None:
        self.offsets.append(self.end)
        self.terms.append(record.term)
        self._kinds += record.payload[:1] or b"\x00"
        self.end += HEAD_SIZE + len(record.payload)

    def cut(self, last_index: int) -> None:
        """Drops the records after `last_index`, and all bytes behind; durable on return."""
        keep = last_index - self.first_index + 1
        if keep < len(self.offsets):
            self.end = self.offsets[keep]
            del self.offsets[keep:]
            del self.terms[keep:]
            del self._kinds[keep:]
        self._disk.truncate(self._fd, self.end)
        self._reserved = self._zeroed = self.end
        self.sync()

    def sync(self) -> None:
        self._disk.sync(self._fd)

    def of_kind(self, kind: bytes) -> Iterator[int]:
        """Returns the indexes of the records whose payload begins with that byte."""
        position = self._kinds.find(kind)
        while position >= 0:
            yield self.first_index + position
            position = self._kinds.find(kind, position + 1)

    # -- reading ---------------------------------------------------------------------------------

    def record(self, index: int) -> Record:
        """Reads a record and checks it again: the disk may have changed it since."""
        position = index - self.first_index
        start = self.offsets[position]
        is_last = position + 1 == len(self.offsets)
        stop = self.end if is_last else self.offsets[position + 1]
        try:
            found = decode_record(self._disk.read(self._fd, stop - start, start))
        except OSError as error:
            raise self._unreadable(index, error.strerror or str(error)) from error
        if found is None or found[0].index != index:
            raise self._unreadable(index, "its checksum is wrong")
        return found[0]

    def _unreadable(self, index: int, reason: str) -> InvariantError:
        return InvariantError(
            f"cannot read entry {index} of the log in {self.path}: {reason}; check the disk, then "
            "restore the data directory, or let this server join the cluster as a new one"
        )

    def close(self) -> None:
        self._disk.close(self._fd)

    def delete(self) -> None:
        self.close()
        self._disk.remove(self.path)


def _places_of_indexes(data: bytes, low: int, high: int) -> Iterator[int]:
    """Returns where a record of an index in the range would begin; for damaged files only."""
    import numpy as np  # imported here: a server without damage need not wait for it

    for shift in range(8):
        count = max(0, len(data) - shift) // 8
        values = np.frombuffer(data, dtype="<u8", count=count, offset=min(shift, len(data)))
        for place in np.flatnonzero((values >= low) & (values < high)):
            yield int(place) * 8 + shift - _HEAD.size - 8
