"""A real disk that another tenant fills and clears, as far as the log and the snapshots see."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from orchgit.raft_log.disk import Disk


class FillableDisk(Disk):
    """While `is_full` nothing new gets room; what was reserved before stays usable, as on a real
    one; not if it `copies_on_write`. `is_broken`: syncs fail."""

    def __init__(self) -> None:
        self.is_full = False
        self.is_broken = False
        self.copies_on_write = False

    def _check(self) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def open(self, path: Path) -> int:
        if not path.exists():
            self._check()
        return super().open(path)

    def allocate(self, fd: int, size: int) -> None:
        self._check()
        super().allocate(fd, size)

    def write(self, fd: int, data: bytes, offset: int) -> None:
        if self.copies_on_write:
            self._check()
        super().write(fd, data, offset)

    def sync(self, fd: int) -> None:
        if self.is_broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(fd)

    def free_bytes(self, directory: Path) -> int:
        return 0 if self.is_full else super().free_bytes(directory)
