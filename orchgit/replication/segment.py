"""One file of the journal: records one after the other, each checked by its own CRC-32C.

    header:  magic (8)
    record:  payload length (4) | CRC-32C of what follows (4) | term (8) | index (8) | payload
    end:     a length of 0 (the file is allocated ahead), or the end of the file

Integers are little-endian. Indexes inside a segment are consecutive.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

MAGIC = b"OGJRNL\x00\x01"
_HEAD = struct.Struct("<II")
_STAMP = struct.Struct("<QQ")
HEAD_SIZE = _HEAD.size + _STAMP.size
MAX_PAYLOAD = 1 << 30


@dataclass(frozen=True, slots=True)
class Record:
    index: int
    term: int
    payload: bytes


def encode_record(term: int, index: int, payload: bytes) -> bytes:
    stamp = _STAMP.pack(term, index)
    return _HEAD.pack(len(payload), crc32c(payload, crc32c(stamp))) + stamp + payload


class Segment:
    """Where each record of one file lies; the payloads stay on disk."""

    def __init__(self, path: Path, first_index: int) -> None:
        self.path = path
        self.first_index = first_index
        self.offsets = array("Q")
        self.terms = array("Q")
        self.end = len(MAGIC)
        """Where the next record goes."""
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @property
    def last_index(self) -> int:
        """One less than `first_index` while the segment is empty."""
        return self.first_index + len(self.offsets) - 1

    def allocate(self, size: int) -> None:
        """Write the header; having the space ahead keeps the file's size out of later syncs."""
        os.pwrite(self.fd, MAGIC, 0)
        try:
            os.posix_fallocate(self.fd, 0, size)
        except OSError:
            return  # a file system that cannot: appending works all the same

    def scan(self) -> bool:
        """Find the records; False if the file goes on with something that is not a whole one."""
        size = os.fstat(self.fd).st_size
        if os.pread(self.fd, len(MAGIC), 0) != MAGIC:
            return False
        while self.end + HEAD_SIZE <= size:
            record = self._read(self.end)
            if record is None:
                break
            self._note(record.term, HEAD_SIZE + len(record.payload))
        return not any(os.pread(self.fd, HEAD_SIZE, self.end))

    def _read(self, offset: int) -> Record | None:
        """The record at `offset`, or None if there is no whole one of the expected index."""
        head = os.pread(self.fd, HEAD_SIZE, offset)
        if len(head) < HEAD_SIZE:
            return None
        length, checksum = _HEAD.unpack_from(head)
        term, index = _STAMP.unpack_from(head, _HEAD.size)
        if index != self.last_index + 1 or length > MAX_PAYLOAD:
            return None
        payload = os.pread(self.fd, length, offset + HEAD_SIZE)
        if len(payload) < length or crc32c(payload, crc32c(head[_HEAD.size :])) != checksum:
            return None
        return Record(index, term, payload)

    def append(self, records: Sequence[Record]) -> None:
        """One write for all of them; nothing is durable before the file is synced."""
        data = b"".join(encode_record(one.term, one.index, one.payload) for one in records)
        _write_all(self.fd, data, self.end)
        for record in records:
            self._note(record.term, HEAD_SIZE + len(record.payload))

    def _note(self, term: int, size: int) -> None:
        self.offsets.append(self.end)
        self.terms.append(term)
        self.end += size

    def payload(self, index: int) -> bytes:
        position = index - self.first_index
        start = self.offsets[position] + HEAD_SIZE
        is_last = position + 1 == len(self.offsets)
        stop = self.end if is_last else self.offsets[position + 1]
        return os.pread(self.fd, stop - start, start)

    def cut(self, last_index: int) -> None:
        """Forget records after `last_index`, in the file too (durable at the next sync)."""
        keep = last_index - self.first_index + 1
        if keep < len(self.offsets):
            self.end = self.offsets[keep]
            del self.offsets[keep:]
            del self.terms[keep:]
        os.ftruncate(self.fd, self.end)

    def sync(self) -> None:
        os.fdatasync(self.fd)

    def close(self) -> None:
        os.close(self.fd)

    def delete(self) -> None:
        self.close()
        self.path.unlink()


def _write_all(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        view = view[written:]
        offset += written


def sync_dir(path: Path) -> None:
    """Make created, renamed and deleted names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
