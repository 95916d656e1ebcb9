"""A file that log lines are appended to: opened again when it was moved away, and rotated."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class LogRotation:
    """When the file is put away as `NAME-NANOSECONDS.SUFFIX`; 0 is never, and keeps every file."""

    max_bytes: int = 0
    max_age_s: float = 0.0
    max_files: int = 0


class LogFile:
    """Raises OSError where the file cannot be opened.

    Several processes write to one file; only the one with a rotation puts it away, the others
    notice within a second.
    """

    def __init__(
        self, path: str, rotation: LogRotation, now_s: Callable[[], float] = time.time
    ) -> None:
        self._path = Path(path)
        self._rotation = rotation
        self._now_s = now_s
        self._lock = threading.Lock()
        self._looked_s = self._began_s = now_s()
        self._file: TextIO = self._path.open("a", encoding="utf-8")

    def write(self, line: str) -> None:
        """Appends a line. Raises OSError."""
        with self._lock:
            now_s = self._now_s()
            if not 0 <= now_s - self._looked_s < _LOOK_S:
                self._looked_s = now_s
                if self._was_moved():
                    self._open_again(now_s)
            limit = self._rotation
            is_full = 0 < limit.max_bytes <= self._file.tell()
            is_old = 0 < limit.max_age_s <= now_s - self._began_s
            if is_full or (is_old and self._file.tell()):
                self._put_away(now_s)
            self._file.write(line)
            self._file.flush()

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def _was_moved(self) -> bool:
        try:
            return not os.path.samestat(os.stat(self._path), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return True

    def _open_again(self, now_s: float) -> None:
        opened = self._path.open("a", encoding="utf-8")
        self._file.close()
        self._file = opened
        self._began_s = now_s

    def _put_away(self, now_s: float) -> None:
        stem, suffix = self._path.stem, self._path.suffix
        self._path.rename(self._path.with_name(f"{stem}-{int(now_s * 1e9)}{suffix}"))
        self._open_again(now_s)
        if self._rotation.max_files > 0:
            old = sorted(
                path
                for path in self._path.parent.glob(f"{stem}-*{suffix}")
                if path.name[len(stem) + 1 : len(path.name) - len(suffix)].isdigit()
            )
            for path in old[: -self._rotation.max_files]:
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
