"""The directory that one server has for itself, and what is said when its disk is full."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from orchgit.errors import DiskFullError, RefusedError
from orchgit.state.connection import is_full


@contextlib.contextmanager
def room_to_start(data_dir: Path) -> Iterator[None]:
    try:
        yield
    except (DiskFullError, sqlite3.OperationalError) as error:
        if isinstance(error, sqlite3.Error) and not is_full(error):
            raise
        raise DiskFullError(
            f"cannot start: the disk of {data_dir} is full; make room there, then start the server "
            "again"
        ) from error


def lock(data_dir: Path) -> int:
    """Two servers in one directory would destroy each other's log."""
    data_dir.mkdir(parents=True, exist_ok=True)
    fd = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise RefusedError(
            f"cannot use data directory {data_dir}: another server is running in it"
        ) from None
    return fd
