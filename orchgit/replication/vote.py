"""Small facts that must be on disk before anybody hears of them: the vote, the log's base."""

from __future__ import annotations

from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from crc32c import crc32c

from orchgit.errors import InvariantError
from orchgit.replication.disk import Disk

T = TypeVar("T", bound=msgspec.Struct)
_SUM_BYTES = 4


class Vote(msgspec.Struct, frozen=True):
    term: int = 0
    voted_for: str | None = None


class Base(msgspec.Struct, frozen=True):
    """The entry of the newest snapshot that was received: the log begins with it, at the least."""

    index: int = 0
    term: int = 0


class CheckedFile(Generic[T]):
    """A small file, replaced whole: CRC-32C (4 bytes) and the msgpack of a struct."""

    def __init__(self, disk: Disk, path: Path, kind: type[T]) -> None:
        self._disk = disk
        self._path = path
        self.value = self._load(kind)

    def _load(self, kind: type[T]) -> T:
        try:
            data = self._disk.load(self._path)
        except OSError as error:
            raise InvariantError(f"cannot read {self._path}: {error}; {_WAY_OUT}") from error
        if data is None:
            return kind()
        body = data[_SUM_BYTES:]
        if not body or crc32c(body) != int.from_bytes(data[:_SUM_BYTES], "little"):
            raise InvariantError(f"cannot trust {self._path}: its checksum is wrong; {_WAY_OUT}")
        return msgspec.msgpack.decode(body, type=kind)

    def store(self, value: T) -> None:
        """Returns when it is on disk; DiskFullError if there is no room, and it is as it was."""
        body = msgspec.msgpack.encode(value)
        self._disk.store(self._path, crc32c(body).to_bytes(_SUM_BYTES, "little") + body)
        self.value = value


_WAY_OUT = (
    "this server may have voted and not know it; restore the data directory from a backup, or "
    "let the server join the cluster as a new one"
)
