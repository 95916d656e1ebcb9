"""The supervisor's journal: one append-only file of the tasks' latest records.

A record is a dict with a `key`; the last one for a key counts, and one with `gone` ends it. Every
frame carries a checksum; a torn tail (the machine stopped inside a write) is cut off when read.
`append` returns after fdatasync where the caller asks for it: a start is on disk before the task's
first instruction, an exit before it is reported.
"""

from __future__ import annotations

import os
from binascii import crc32
from errno import ENOSPC

from agent.supervisor.codec import CodecError, pack, unpack

Record = dict[str, object]

COMPACT_BYTES = 1 << 20


class SupervisorJournal:
    """The file is compacted when it has grown by `compact_bytes`, or to twice its size."""

    def __init__(self, directory: str, compact_bytes: int = COMPACT_BYTES) -> None:
        self._path = os.path.join(directory, "journal")
        self.records, size = _read(self._path)
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.ftruncate(self._fd, size)
        self._size = size
        self._compact_bytes = compact_bytes
        self._compact_at = max(compact_bytes, 2 * size)

    def append(self, record: Record, durable: bool) -> None:
        """Write one record; with `durable`, only return once it is on disk."""
        self._write(_frame(record))
        if durable:
            os.fdatasync(self._fd)
        _apply(self.records, record)
        if self._size > self._compact_at:
            try:
                self.compact()
            except OSError:
                self._compact_at = self._size + self._compact_bytes  # no room: the old file is good

    def _write(self, data: bytes) -> None:
        """The whole frame or (on a full disk) nothing of it: what follows must stay readable."""
        try:
            if os.write(self._fd, data) < len(data):
                raise OSError(ENOSPC, os.strerror(ENOSPC))
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(data)

    def compact(self) -> None:
        """Replace the file by one that holds only the live records."""
        data = b"".join(_frame(record) for record in self.records.values())
        new_path = self._path + ".new"
        fd = os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            if os.write(fd, data) < len(data):
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            os.fsync(fd)
            os.rename(new_path, self._path)
        except OSError:
            os.close(fd)
            raise
        os.close(self._fd)
        self._fd, self._size = fd, len(data)
        self._compact_at = max(self._compact_bytes, 2 * len(data))
        directory_fd = os.open(os.path.dirname(self._path), os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(directory_fd)
        os.close(directory_fd)

    def is_there(self) -> bool:
        """False when the file was deleted, or another one has its name."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._fd))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        os.close(self._fd)


def _frame(record: Record) -> bytes:
    body = pack(record)
    return len(body).to_bytes(4, "big") + crc32(body).to_bytes(4, "big") + body


def _read(path: str) -> tuple[dict[str, Record], int]:
    """The live records, and how many bytes of the file are whole."""
    records: dict[str, Record] = {}
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return records, 0
    at = 0
    while (record := _record_at(data, at)) is not None:
        _apply(records, record[0])
        at = record[1]
    return records, at


def _record_at(data: bytes, at: int) -> tuple[Record, int] | None:
    size = int.from_bytes(data[at : at + 4], "big")
    body = data[at + 8 : at + 8 + size]
    if len(data) < at + 8 or len(body) < size:
        return None
    if crc32(body) != int.from_bytes(data[at + 4 : at + 8], "big"):
        return None
    try:
        value = unpack(body)
    except CodecError:
        return None
    return (value, at + 8 + size) if isinstance(value, dict) else None


def _apply(records: dict[str, Record], record: Record) -> None:
    key = str(record["key"])
    if record.get("gone"):
        records.pop(key, None)
    else:
        records[key] = record
