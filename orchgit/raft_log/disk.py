"""The port to the disk for all that must survive: log, vote, base, snapshots, the store's marker.

Tests replace it by a disk that tears writes, fails to sync, flips bits or is full.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from orchgit.errors import DiskFullError

_FULL = (errno.ENOSPC, errno.EDQUOT)


class Disk:
    """Files by descriptor; an OSError is the system's."""

    kept_free_bytes = 4 << 20
    """The log leaves these free: the state has to take in what the log holds."""
    step_bytes = 64 << 10

    # -- one file --------------------------------------------------------------------------------

    def open(self, path: Path) -> int:
        """Opens for reading and writing; makes the file if there is none."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def close(self, fd: int) -> None:
        os.close(fd)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def read(self, fd: int, size: int, offset: int) -> bytes:
        return os.pread(fd, size, offset)

    def write(self, fd: int, data: bytes, offset: int) -> None:
        """Writes all of it; after an error any part of it may be there."""
        view = memoryview(data)
        while view:
            written = os.pwrite(fd, view, offset)
            view = view[written:]
            offset += written

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def allocate(self, fd: int, size: int) -> None:
        """Allocates zeros up to `size`, so that writing there needs no more space."""
        os.posix_fallocate(fd, 0, size)

    def sync(self, fd: int) -> None:
        os.fdatasync(fd)

    # -- names -----------------------------------------------------------------------------------

    def make_dir(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def list(self, directory: Path, suffix: str) -> list[Path]:
        return sorted(directory.glob(f"*{suffix}"))

    def load(self, path: Path) -> bytes | None:
        """Returns a small file's content; None if there is no file."""
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def sync_dir(self, path: Path) -> None:
        """Makes created, renamed and deleted names in a directory durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def free_bytes(self, directory: Path) -> int:
        """Returns the space that is left for this user."""
        status = os.statvfs(directory)
        return status.f_bavail * status.f_frsize

    def has_spare(self, directory: Path, size: int = 0) -> bool:
        """Returns whether `size` bytes fit besides what is kept free."""
        return self.free_bytes(directory) >= self.kept_free_bytes + size

    # -- made of these ---------------------------------------------------------------------------

    def reserve(self, fd: int, directory: Path, has: int, needs: int, likes: int) -> int:
        """Reserves space for a file of `needs` bytes, or of `likes` if there is plenty; returns the
        size.

        Writing into it can no longer fail for want of space, and syncing it has no new size to
        put on disk.
        """
        spare = self.free_bytes(directory) - (self.kept_free_bytes if has else 0)
        size = max(needs, likes)
        if (size - has) * 2 > spare:
            size = -(-needs // self.step_bytes) * self.step_bytes
        if size - has > spare:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.allocate(fd, size)
        return size

    def store(self, path: Path, data: bytes) -> None:
        """Replaces a small file whole; durable on return. DiskFullError: the file is as it was;
        after any other error its content is unknown."""
        fresh = path.with_name(path.name + ".new")
        with self.needing_room(path.parent):
            try:
                self._write_fresh(fresh, data)
                self.replace(fresh, path)
            except OSError:
                with contextlib.suppress(OSError):
                    self.remove(fresh)
                raise
        self.sync_dir(path.parent)

    def _write_fresh(self, path: Path, data: bytes) -> None:
        fd = self.open(path)
        try:
            self.truncate(fd, 0)
            self.write(fd, data, 0)
            self.sync(fd)
        finally:
            self.close(fd)

    @contextlib.contextmanager
    def needing_room(self, directory: Path) -> Iterator[None]:
        """Raises DiskFullError instead of the system's error for a full disk."""
        try:
            yield
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise self.full(directory) from error

    def full(self, directory: Path) -> DiskFullError:
        free_mb = self.free_bytes(directory) >> 20
        return DiskFullError(
            f"cannot write: the disk of {directory} is full ({free_mb} MB free); make room there, "
            "and writing goes on by itself"
        )


DISK = Disk()
"""The real one."""
