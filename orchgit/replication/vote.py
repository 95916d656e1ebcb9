"""The term and the vote given in it: durable before anybody hears of them."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from crc32c import crc32c

from orchgit.errors import InvariantError
from orchgit.replication.segment import sync_dir


class Vote(msgspec.Struct, frozen=True):
    term: int = 0
    voted_for: str | None = None


class VoteFile:
    """A small file, replaced whole: CRC-32C (4 bytes) and the msgpack of a Vote."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.vote = self._load()

    def _load(self) -> Vote:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return Vote()
        if crc32c(data[4:]) != int.from_bytes(data[:4], "little"):
            raise InvariantError(
                f"cannot trust {self._path}: its checksum is wrong, so this server may have voted "
                "and not know it; restore it from a backup, or let the server join as a new one"
            )
        return msgspec.msgpack.decode(data[4:], type=Vote)

    def store(self, vote: Vote) -> None:
        """Returns when it is on disk."""
        body = msgspec.msgpack.encode(vote)
        fresh = self._path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(crc32c(body).to_bytes(4, "little") + body)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        sync_dir(self._path.parent)
        self.vote = vote
