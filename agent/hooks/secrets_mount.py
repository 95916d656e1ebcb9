"""Keeps the secrets of tasks in memory: a tmpfs on each task's `secrets`, of limited size.

A mount outlives the agent like the task does, and is taken away with the allocation's files. Where
the agent may not mount, secrets lie in a directory on the disk, closed to other users.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import structlog

_log = structlog.get_logger(component="agent")
DEFAULT_SIZE_MB = 1
_MIB = 1 << 20
_NOSUID, _NODEV, _NOEXEC = 2, 4, 8
_DETACH = 2
_ESCAPES = {r"\040": " ", r"\011": "\t", r"\012": "\n", r"\134": "\\"}


class SecretsMounts:
    """`is_possible` becomes False at the first refusal of the system."""

    def __init__(self, is_possible: bool = False) -> None:
        self.is_possible = is_possible

    def mount(self, secrets: Path, size_mb: int, mode: int) -> None:
        """Puts a tmpfs on the directory unless one is there already. A new one has `mode`.

        Raises OSError for a path that is no directory.
        """
        if not self.is_possible or os.path.ismount(secrets):
            return
        # Opened without following a link: the directory above is one that the task may write.
        directory_fd = os.open(secrets, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        options = f"size={(size_mb or DEFAULT_SIZE_MB) * _MIB},mode={mode:o}"
        libc = ctypes.CDLL(None, use_errno=True)
        flags = _NOSUID | _NODEV | _NOEXEC
        target = f"/proc/self/fd/{directory_fd}".encode()
        refused = libc.mount(b"orchgit", target, b"tmpfs", flags, options.encode()) != 0
        os.close(directory_fd)
        if refused:
            self.is_possible = False
            _log.warning(
                "cannot keep secrets of tasks in memory; they lie on the disk",
                error=os.strerror(ctypes.get_errno()),
            )


def unmount_below(root: Path) -> list[str]:
    """Takes every mount below the directory away. What still uses one keeps it until it ends.
    Returns those that the system does not take away."""
    below = f"{root.resolve()}/"
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    found, kept = [], []
    for line in lines:
        path = line.split()[4]
        for escape, character in _ESCAPES.items():
            path = path.replace(escape, character)
        if path.startswith(below):
            found.append(path)
    libc = ctypes.CDLL(None, use_errno=True) if found else None
    for path in sorted(found, key=len, reverse=True):
        assert libc is not None
        if libc.umount2(os.fsencode(path), _DETACH) != 0:
            _log.warning("cannot unmount", path=path, error=os.strerror(ctypes.get_errno()))
            kept.append(path)
    return kept
