"""Access to files for the file functions; the caller of `parse_job` chooses what they may read.

A commit's tree, for example, gives only its own blobs. Without access the functions are disabled.
"""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import Protocol

MAX_FILE_BYTES = 16 * 1024 * 1024


class FileAccess(Protocol):
    """Paths are as written in the job file. `read` raises FileNotFoundError or OSError."""

    def read(self, path: str) -> bytes: ...

    def exists(self, path: str) -> bool: ...

    def glob(self, base: str, pattern: str) -> list[str]:
        """Regular files below `base` that match, relative to it."""
        ...

    def absolute(self, path: str) -> str: ...


class CurrentDirectory:
    """The files that a user of the command line sees, relative to the current directory."""

    def read(self, path: str) -> bytes:
        with Path(path).expanduser().open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise OSError(f"larger than {MAX_FILE_BYTES} bytes")
        return content

    def exists(self, path: str) -> bool:
        return Path(path).expanduser().is_file()

    def glob(self, base: str, pattern: str) -> list[str]:
        found = glob.glob(os.path.join(base, pattern), recursive=True)
        return sorted(os.path.relpath(path, base) for path in found if os.path.isfile(path))

    def absolute(self, path: str) -> str:
        return os.path.abspath(path)
