"""Small facts that must be durable before any member hears of them: files with a checksum."""

from __future__ import annotations

from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from crc32c import crc32c

from orchgit.errors import InvariantError
from orchgit.raft_log.disk import Disk

T = TypeVar("T", bound=msgspec.Struct)
_SUM_BYTES = 4
_WAY_OUT = (
    "this server may have voted and not know it; restore the data directory from a backup, or "
    "let the server join the cluster as a new one"
)


class CheckedFile(Generic[T]):
    """A small file, replaced whole: CRC-32C (4 bytes) and the msgpack of a struct."""

    def __init__(self, disk: Disk, path: Path, kind: type[T]) -> None:
        self._disk = disk
        self._path = path
        self.value = self._load(kind)

    def _load(self, kind: type[T]) -> T:
        data = load(self._disk, self._path)
        if data is None:
            return kind()
        body = unsealed(data)
        if body is None:
            raise damaged(self._path)
        return msgspec.msgpack.decode(body, type=kind)

    def store(self, value: T) -> None:
        """Durable on return. DiskFullError: there is no room, and the file is as it was."""
        self._disk.store(self._path, sealed(msgspec.msgpack.encode(value)))
        self.value = value


def load(disk: Disk, path: Path) -> bytes | None:
    """Returns a small file's content, None if there is no file. Raises InvariantError if it cannot
    be read."""
    try:
        return disk.load(path)
    except OSError as error:
        raise InvariantError(f"cannot read {path}: {error}; {_WAY_OUT}") from error


def sealed(body: bytes) -> bytes:
    return crc32c(body).to_bytes(_SUM_BYTES, "little") + body


def unsealed(data: bytes) -> bytes | None:
    """Returns the body of sealed data; None if the checksum is wrong."""
    body = data[_SUM_BYTES:]
    if not body or crc32c(body) != int.from_bytes(data[:_SUM_BYTES], "little"):
        return None
    return body


def damaged(path: Path) -> InvariantError:
    return InvariantError(f"cannot trust {path}: its checksum is wrong; {_WAY_OUT}")
