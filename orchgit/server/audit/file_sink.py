"""The file of the audit log: lines appended whole, rotated by size and age."""

from __future__ import annotations

import os
from pathlib import Path

from orchgit.clock import Clock
from orchgit.server.audit.settings import AuditSettings


class FileSink:
    """Appends to one file, on one thread at a time. A rotated file is `NAME-UNIX_NS.EXTENSION`."""

    def __init__(self, settings: AuditSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._fd = -1
        self._size_bytes = 0
        self._opened_s = 0.0

    def open(self) -> None:
        """Raises OSError if the file cannot be made or appended to."""
        path = self._settings.path
        if self._fd < 0:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._fd = os.open(path, flags, self._settings.mode)
            os.fchmod(self._fd, self._settings.mode)
            self._size_bytes = os.fstat(self._fd).st_size
            self._opened_s = self._clock.monotonic_s()

    def write(self, data: bytes) -> None:
        """Returns when the kernel has all of `data`. Raises OSError; the file has none of it then,
        unless another process appended to the file meanwhile."""
        if self._fd >= 0 and not self._is_in_place():
            self.close()
        self.open()
        if self._is_full(len(data)):
            self._rotate()
        size_bytes = self._size_bytes
        try:
            while data:
                written = os.write(self._fd, data)
                self._size_bytes += written
                data = data[written:]
        except OSError:
            if os.fstat(self._fd).st_size == self._size_bytes:
                os.ftruncate(self._fd, size_bytes)  # else the next record follows half of this one
                self._size_bytes = size_bytes
            raise

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _is_in_place(self) -> bool:
        """Returns whether the open file still is the one of that name: it may have been moved."""
        try:
            found = os.stat(self._settings.path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        own = os.fstat(self._fd)
        return (found.st_ino, found.st_dev) == (own.st_ino, own.st_dev)

    def _is_full(self, more_bytes: int) -> bool:
        settings = self._settings
        if not self._size_bytes:
            return False
        too_large = 0 < settings.rotate_bytes < self._size_bytes + more_bytes
        age_s = self._clock.monotonic_s() - self._opened_s
        return too_large or 0 < settings.rotate_duration_s <= age_s

    def _rotate(self) -> None:
        path = self._settings.path
        self.close()
        os.rename(path, path.with_name(f"{path.stem}-{self._clock.now_ns()}{path.suffix}"))
        self.open()
        if self._settings.rotate_max_files:
            for old in self._rotated()[: -self._settings.rotate_max_files]:
                old.unlink(missing_ok=True)

    def _rotated(self) -> list[Path]:
        """Returns the rotated files, the oldest first."""
        path = self._settings.path
        found = []
        for each in path.parent.iterdir():
            name = each.name.removesuffix(path.suffix).removeprefix(f"{path.stem}-")
            if each.name == f"{path.stem}-{name}{path.suffix}" and name.isdecimal():
                found.append((int(name), each))
        return [each for _, each in sorted(found)]
