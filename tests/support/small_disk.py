"""A small file system of the test's own, to be filled up."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BALLAST = "ballast"
_PIECE = bytes(256 << 10)


class SmallDisk:
    """In memory; `fill` leaves nothing, `free` gives everything back."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def fill(self) -> None:
        fd = os.open(self.directory / _BALLAST, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        piece = _PIECE
        try:
            while piece:
                try:
                    os.write(fd, piece)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    piece = piece[: len(piece) // 2]
        finally:
            os.close(fd)

    def free(self) -> None:
        (self.directory / _BALLAST).unlink()


@contextmanager
def small_disk(directory: Path, size_mb: int) -> Iterator[SmallDisk]:
    """Mounted on `directory` while the block runs; needs root."""
    directory.mkdir(parents=True, exist_ok=True)
    size = f"size={size_mb}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", directory], check=True)
    try:
        yield SmallDisk(directory)
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            subprocess.run(["umount", "--lazy", directory], check=True)
