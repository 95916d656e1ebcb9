"""A directory that one process has for itself: others are told which process that is."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from orchgit.errors import RefusedError


def lock_directory(directory: Path, shown: Path) -> int:
    """The descriptor that holds the lock until it is closed, or its process ends however it does.

    Raises RefusedError, which names the data directory `shown`, if another process has it. Children
    do not inherit the lock.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
        os.close(fd)
        process = f"process {holder}" if holder.isdecimal() else "another process"
        raise RefusedError(
            f"cannot use the data directory {shown}: {process} is running in it; stop that process "
            "first, or name another directory"
        ) from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd
