"""Where an allocation's files lie on the node, and the one way to reach into them from outside.

<alloc root>/<alloc id>/alloc/{data,logs,tmp}        shared by the allocation's tasks
<alloc root>/<alloc id>/<task>/{local,secrets,tmp}   of one task
<alloc root>/<alloc id>/<task>/private               of the agent about one task
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from agent.drivers.base import TaskDir
from orchgit.errors import InvalidInputError, NotAllowedError, NotFoundError

SHARED = "alloc"
LOGS = "logs"
PRIVATE = "private"


@dataclass(frozen=True, slots=True)
class TaskPaths:
    """One task's directories on the host."""

    alloc_dir: Path
    task_dir: Path

    @property
    def local(self) -> Path:
        return self.task_dir / "local"

    @property
    def secrets(self) -> Path:
        return self.task_dir / "secrets"

    @property
    def csi_dir(self) -> Path:
        """What CSI plugins of the node and their volumes have of the node: beside all allocations'
        directories."""
        return csi_root(self.alloc_dir.parents[1])

    def for_driver(self) -> TaskDir:
        return TaskDir(
            alloc_dir=str(self.alloc_dir),
            task_dir=str(self.task_dir),
            local_dir=str(self.local),
            secrets_dir=str(self.secrets),
            log_dir=str(self.alloc_dir / LOGS),
        )


@dataclass(frozen=True, slots=True)
class AllocPaths:
    """One allocation's directories on the host."""

    root: Path

    @property
    def shared(self) -> Path:
        return self.root / SHARED

    @property
    def logs(self) -> Path:
        return self.shared / LOGS

    def task(self, name: str) -> TaskPaths:
        return TaskPaths(self.shared, self.root / name)


def csi_root(alloc_root: Path) -> Path:
    return alloc_root.parent / "csi"


def csi_socket_directory(root: Path, alloc_id: str, task_name: str) -> Path:
    """Returns the directory of the socket that one task serves as a CSI plugin. Its name is short,
    since the system takes 107 bytes for the path of a socket."""
    name = hashlib.sha256(f"{alloc_id}/{task_name}".encode()).hexdigest()
    return root / "plugins" / name[:16]


class MissingFileError(NotFoundError):
    """There is no file of that name."""


def open_inside(root: Path, relative: str, flags: int = os.O_RDONLY) -> int:
    """A descriptor of the file or directory `relative` under `root`.

    Every part is opened without following links, starting at `root`: a task that puts links into
    its directories, or swaps them while they are read, cannot lead a reader out of them. A link is
    NotAllowedError, `..` too; a missing part is NotFoundError.
    """
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise NotAllowedError("Path escapes the alloc directory")
    if "\0" in relative:
        raise InvalidInputError("cannot open the file: no name of a file has a NUL in it")
    fd = _open(root, None, os.O_RDONLY | os.O_DIRECTORY, relative)
    for position, part in enumerate(parts):
        last = position == len(parts) - 1
        step = flags if last else os.O_RDONLY | os.O_DIRECTORY
        try:
            inner = _open(part, fd, step | os.O_NOFOLLOW, relative)
        finally:
            os.close(fd)
        fd = inner
    return fd


def open_directory(root: Path, parts: list[str]) -> int:
    """A descriptor of the directory, made where missing; OSError when a part is a link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    fd = os.open(root, flags)
    for part in parts:
        try:
            with contextlib.suppress(FileExistsError):  # made by an earlier attempt, or by the task
                os.mkdir(part, 0o755, dir_fd=fd)
            inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


def _open(name: str | Path, at: int | None, flags: int, shown: str) -> int:
    try:
        return os.open(name, flags | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=at)
    except (FileNotFoundError, NotADirectoryError):
        if at is not None and _is_link(name, at):
            raise _link_error(shown) from None
        raise MissingFileError(f"stat {shown}: no such file or directory") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise NotFoundError(f"stat {shown}: file name too long") from None
        if at is not None and _is_link(name, at):
            raise _link_error(shown) from None
        raise NotAllowedError(f"cannot open {shown}: {error.strerror}") from None


def _is_link(name: str | Path, at: int) -> bool:
    try:
        os.readlink(name, dir_fd=at)
    except OSError:
        return False
    return True


def _link_error(shown: str) -> NotAllowedError:
    return NotAllowedError(f"cannot open {shown}: it is, or lies behind, a symbolic link")
