"""A task's output as numbered files: `web.stdout.0`, `web.stdout.1`, ... .

The index only grows; when more than `max_files` exist the oldest is deleted. A file ends at a line
end where one is near, so that a reader of one file sees whole lines. A disk that is full drops
output and counts it: a task must never stop because its log cannot be written.
The directory may be writable by the task, so files are opened without following links.
"""

from __future__ import annotations

import os
from stat import S_ISREG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_OPEN_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK


class RotatingFiles:
    """Appends to the newest file of one stream, moving to the next at `max_bytes`. `write_fd` is
    `os.write`, but in tests of a full disk."""

    def __init__(
        self,
        directory: str,
        prefix: str,
        max_files: int,
        max_bytes: int,
        write_fd: Callable[[int, bytes], int] = os.write,
    ) -> None:
        self._directory = directory
        self._prefix = prefix
        self._max_files = max(1, max_files)
        self._max_bytes = max(1, max_bytes)
        self._write_fd = write_fd
        self._fd = -1
        self.dropped_bytes = 0
        indexes = self._indexes()
        self._index = indexes[-1] if indexes else 0
        self._size = 0
        self._inside_line = False

    def open(self) -> None:
        """Create or continue the newest file; a reader then finds it before the first output."""
        name = f"{self._prefix}.{self._index}"
        directory_fd = self._open_directory()
        try:
            fd = os.open(name, _OPEN_FLAGS, 0o644, dir_fd=directory_fd)
        finally:
            os.close(directory_fd)
        status = os.fstat(fd)
        if not S_ISREG(status.st_mode) or status.st_nlink > 1:
            os.close(fd)
            raise OSError(f"{name} in {self._directory} is not a regular file of its own")
        self._fd, self._size = fd, status.st_size

    def write(self, data: bytes) -> None:
        """Append all of `data`, in as many files as it takes."""
        view = memoryview(data)
        while view:
            if self._fd < 0 and not self._reopen():
                self.dropped_bytes += len(view)
                return
            size = self._fitting(data, len(data) - len(view))
            if size == 0:
                self._rotate()
                continue
            taken = self._append(bytes(view[:size]))
            if taken == 0:
                self.dropped_bytes += len(view)
                return
            view = view[taken:]

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _append(self, data: bytes) -> int:
        try:
            written = self._write_fd(self._fd, data)
        except OSError:
            return 0
        self._size += written
        self._inside_line = not data[:written].endswith(b"\n")
        return written

    def _fitting(self, data: bytes, start: int) -> int:
        """How much of `data[start:]` goes into this file: whole lines, if they are no longer than a
        file; 0 when the next file must begin."""
        room = self._max_bytes - self._size
        rest = len(data) - start
        if rest <= room:
            return rest
        end = data.rfind(b"\n", start, start + max(0, room))
        if end >= 0:
            return end + 1 - start
        return max(0, room) if self._inside_line or self._size == 0 else 0

    def _reopen(self) -> bool:
        try:
            self.open()
        except OSError:
            return False
        return True

    def _rotate(self) -> None:
        self.close()
        self._index += 1
        self._size = 0
        self._inside_line = False
        for index in self._indexes():
            if index <= self._index - self._max_files:
                self._delete(index)

    def _delete(self, index: int) -> None:
        try:
            directory_fd = self._open_directory()
        except OSError:
            return
        try:
            os.unlink(f"{self._prefix}.{index}", dir_fd=directory_fd)
        except OSError:
            return  # a person deleted it first
        finally:
            os.close(directory_fd)

    def _open_directory(self) -> int:
        """Open it each time, as it may be replaced: by another directory, but not by a link. A
        container whose user is root may do either, since it sees the directory above."""
        return os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def _indexes(self) -> list[int]:
        """The indexes of the files there now, oldest first."""
        start = self._prefix + "."
        try:
            directory_fd = self._open_directory()
        except OSError:
            return []
        try:
            names = os.listdir(directory_fd)
        finally:
            os.close(directory_fd)
        tails = [name[len(start) :] for name in names if name.startswith(start)]
        return sorted(int(tail) for tail in tails if tail.isdecimal())
