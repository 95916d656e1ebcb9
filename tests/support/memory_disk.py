"""A disk in memory that does what disks do: it forgets what was not synced, tears writes, fills up,
fails and flips bits. `crash` leaves what a machine might find after its power came back."""

from __future__ import annotations

import errno
import os
import random
from dataclasses import dataclass, field
from pathlib import Path

from orchgit.raft_log.disk import Disk

BLOCK = 64
"""What is written whole or not at all; small, so that records lie in several."""


@dataclass
class File:
    """`content` is what the system shows, `durable` what is on the disk; between them lie changes
    that were not synced: (offset, data), or (None, new size)."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    changes: list[tuple[int | None, bytes | int]] = field(default_factory=list)

    def write(self, offset: int, data: bytes) -> None:
        _put(self.content, offset, data)
        self.changes.append((offset, bytes(data)))

    def resize(self, size: int) -> None:
        _resize(self.content, size)
        self.changes.append((None, size))

    def sync(self) -> None:
        """What was lost by a failed sync is not written again."""
        for offset, what in self.changes:
            if isinstance(what, int):
                _resize(self.durable, what)
            elif offset is not None:
                _put(self.durable, offset, what)
        self.changes.clear()

    def crash(self, rng: random.Random) -> None:
        """Sizes change in order; of what was written, any block may be missing."""
        sizes = sum(offset is None for offset, _ in self.changes)
        kept = rng.randint(0, sizes)
        for offset, what in self.changes:
            if isinstance(what, int):
                kept -= 1
                if kept >= 0:
                    _resize(self.durable, what)
            elif offset is not None:
                self._tear(rng, offset, what)
        self.content = bytearray(self.durable)
        self.changes.clear()

    def _tear(self, rng: random.Random, offset: int, data: bytes) -> None:
        luck = rng.choice((0.0, 0.5, 1.0))
        end = offset + len(data)
        while offset < end:
            stop = min(end, (offset // BLOCK + 1) * BLOCK)
            part, data = data[: stop - offset], data[stop - offset :]
            if rng.random() < luck:
                _put(self.durable, offset, part)
            offset = stop

    def lose(self) -> None:
        """A failed sync: the system shows the pages still, and believes that they are on disk."""
        self.changes.clear()


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _resize(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


class MemoryDisk(Disk):
    """`fail_at[n] = errno` lets the n-th call that changes or syncs something fail; a failing write
    may have written a part. `capacity` is its size in bytes. `bad` are files that cannot be read.
    """

    kept_free_bytes = 512
    step_bytes = 64

    def __init__(self, seed: int = 0, capacity: int = 1 << 40) -> None:
        self.rng = random.Random(seed)
        self.capacity = capacity
        self.fail_at: dict[int, int] = {}
        self.calls = 0
        self.failed: list[str] = []
        self.names: dict[Path, File] = {}
        self.bad: set[Path] = set()
        self.trace: list[tuple[str, str]] = []
        """(what, file name) of all that was done."""
        self._durable_names: dict[Path, File] = {}
        self._name_changes: list[dict[Path, File]] = []
        self._open: dict[int, tuple[Path, File]] = {}
        self._fds = 100

    # -- faults ----------------------------------------------------------------------------------

    def crash(self) -> None:
        """The power fails: open files are gone, and what was not synced may be."""
        # Names change in order, as a journalling file system has it.
        changes = [self._durable_names, *self._name_changes]
        self._durable_names = dict(self.rng.choice(changes))
        self.names = dict(self._durable_names)
        for file in self.names.values():
            file.crash(self.rng)
        self.restart()
        self._name_changes.clear()

    def restart(self) -> None:
        """The process died; the system goes on."""
        self._open.clear()
        self.fail_at.clear()
        self.calls = 0

    def flip(self, path: Path, position: int, bit: int = 0) -> None:
        """The disk changes a bit by itself."""
        file = self.names[path]
        file.content[position] ^= 1 << bit
        if position < len(file.durable):
            file.durable[position] ^= 1 << bit

    def used(self) -> int:
        files = {id(file): file for file in self.names.values()}
        files |= {id(file): file for _, file in self._open.values()}
        return sum(len(file.content) for file in files.values())

    def _step(self, what: str, path: Path) -> None:
        self.calls += 1
        number = self.fail_at.pop(self.calls, None)
        if number is not None:
            self.failed.append(what)
            raise OSError(number, os.strerror(number))
        self.trace.append((what, path.name))

    def _grow(self, file: File, size: int) -> None:
        if self.used() + max(0, size - len(file.content)) > self.capacity:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    # -- as the real one -------------------------------------------------------------------------

    def open(self, path: Path) -> int:
        if path not in self.names:
            self._step("create", path)
            self.names[path] = File()
            self._renamed()
        self._fds += 1
        self._open[self._fds] = path, self.names[path]
        return self._fds

    def close(self, fd: int) -> None:
        del self._open[fd]

    def size(self, fd: int) -> int:
        return len(self._open[fd][1].content)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        path, file = self._open[fd]
        self._check_readable(path)
        return bytes(file.content[offset : offset + size])

    def write(self, fd: int, data: bytes, offset: int) -> None:
        path, file = self._open[fd]
        try:
            self._step("write", path)
            self._grow(file, offset + len(data))
        except OSError:
            part = self.rng.randint(0, len(data))
            part = min(part, max(0, self.capacity - self.used()))
            file.write(offset, data[:part])
            raise
        file.write(offset, data)

    def truncate(self, fd: int, size: int) -> None:
        path, file = self._open[fd]
        self._step("truncate", path)
        file.resize(size)

    def allocate(self, fd: int, size: int) -> None:
        path, file = self._open[fd]
        self._step("allocate", path)
        self._grow(file, size)
        if size > len(file.content):
            file.resize(size)

    def sync(self, fd: int) -> None:
        path, file = self._open[fd]
        try:
            self._step("sync", path)
        except OSError:
            file.lose()
            raise
        file.sync()

    def make_dir(self, path: Path) -> None:
        """All of them are there."""

    def list(self, directory: Path, suffix: str) -> list[Path]:
        found = [one for one in self.names if one.parent == directory and one.suffix == suffix]
        return sorted(found)

    def load(self, path: Path) -> bytes | None:
        self._check_readable(path)
        file = self.names.get(path)
        return bytes(file.content) if file is not None else None

    def _check_readable(self, path: Path) -> None:
        if path in self.bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def replace(self, source: Path, target: Path) -> None:
        self._step("replace", target)
        self.names[target] = self.names.pop(source)
        self._renamed()

    def remove(self, path: Path) -> None:
        if path in self.names:
            self._step("remove", path)
            del self.names[path]
            self._renamed()

    def sync_dir(self, path: Path) -> None:
        self._step("sync_dir", path)
        self._durable_names = dict(self.names)
        self._name_changes.clear()

    def _renamed(self) -> None:
        self._name_changes.append(dict(self.names))

    def free_bytes(self, directory: Path) -> int:
        return max(0, self.capacity - self.used())
