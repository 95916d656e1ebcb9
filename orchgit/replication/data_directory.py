"""The error when the disk of a server's directory is full at start."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from orchgit.errors import DiskFullError
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
