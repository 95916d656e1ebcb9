"""Files for programs that take certificates and known hosts only by path."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


class TextFiles:
    """Files by their content, below a directory that only the server's user may enter."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def store(self, kind: str, text: str) -> Path:
        """Writes the text, unless its file is there, and returns the file's path."""
        path = self._directory / kind / hashlib.sha256(text.encode()).hexdigest()
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial = path.with_suffix(f".{os.getpid()}")
            partial.write_text(text, encoding="utf-8")
            partial.replace(path)
        return path

    def empty_directory(self) -> Path:
        """Returns the path of a directory in which nothing is."""
        path = self._directory / "empty"
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    @contextlib.contextmanager
    def scratch_file(self) -> Iterator[Path]:
        """Makes an empty file, which is deleted at the end."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._directory, prefix="scratch-")
        os.close(handle)
        try:
            yield Path(name)
        finally:
            Path(name).unlink(missing_ok=True)
