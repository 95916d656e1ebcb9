"""What a server had on its disk, gone."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path


def lose(directory: Path) -> None:
    """Of a server that was just killed: its workers end by themselves, and while they do, SQLite
    takes away files of the last one that closes the database."""
    while directory.exists():
        with contextlib.suppress(OSError):
            shutil.rmtree(directory)
