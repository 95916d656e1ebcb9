"""Small facts that must be on disk before anybody hears of them: the vote, the log's base."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from crc32c import crc32c

from orchgit.errors import InvariantError
from orchgit.replication.segment import sync_dir

T = TypeVar("T", bound=msgspec.Struct)


class Vote(msgspec.Struct, frozen=True):
    term: int = 0
    voted_for: str | None = None


class Base(msgspec.Struct, frozen=True):
    """The entry of the newest snapshot that was received: the log begins with it, at the least."""

    index: int = 0
    term: int = 0


class CheckedFile(Generic[T]):
    """A small file, replaced whole: CRC-32C (4 bytes) and the msgpack of a struct."""

    def __init__(self, path: Path, kind: type[T]) -> None:
        self._path = path
        self.value = self._load(kind)

    def _load(self, kind: type[T]) -> T:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return kind()
        if crc32c(data[4:]) != int.from_bytes(data[:4], "little"):
            raise InvariantError(
                f"cannot trust {self._path}: its checksum is wrong, so this server may have voted "
                "and not know it; restore it from a backup, or let the server join as a new one"
            )
        return msgspec.msgpack.decode(data[4:], type=kind)

    def store(self, value: T) -> None:
        """Returns when it is on disk."""
        body = msgspec.msgpack.encode(value)
        fresh = self._path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(crc32c(body).to_bytes(4, "little") + body)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        sync_dir(self._path.parent)
        self.value = value
