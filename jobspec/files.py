"""What the file functions may read: nothing, the current directory, or whatever the caller gives.

The caller of `parse_job` decides. A commit's tree, for one, gives only its own blobs.
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
    """The files a command line user sees, relative to where the command was started."""

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
