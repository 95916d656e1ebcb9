"""Writing a file into a directory that a task may have prepared: no link is ever followed."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from agent.hooks.base import SetupError
from agent.paths import PRIVATE, SHARED, TaskPaths, open_directory

SECRETS = "secrets"
_MORE_SECRETS = "raise `secrets` (MB) in the task's `resources`, or have the task write less there"
_MORE_DISK = "make room on the node, in the file system of its alloc_dir"


def relative_parts(relative: str) -> list[str]:
    """The parts of a path that must stay inside its directory; SetupError when it does not."""
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    if ".." in parts or not parts:
        raise SetupError(
            f'cannot write "{relative}": it must name a file inside the task directory'
        )
    return parts


def destination_parts(paths: TaskPaths, path: str) -> tuple[Path, list[str]]:
    """(directory, parts below it) that an artifact's destination names: the task's directory, or
    what the allocation's tasks share, as the host or as the task sees it, or as `../alloc`."""
    roots = {
        str(paths.task_dir): paths.task_dir,
        str(paths.alloc_dir): paths.alloc_dir,
        f"/{SHARED}": paths.alloc_dir,
        f"../{SHARED}": paths.alloc_dir,
    }
    prefix = next((one for one in roots if path == one or path.startswith(f"{one}/")), "")
    root, relative = roots.get(prefix, paths.task_dir), path.removeprefix(prefix)
    parts = [part for part in relative.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in relative:
        raise SetupError(f'cannot write to "{path}": it leads out of the task directory')
    if root == paths.task_dir and parts[:1] == [PRIVATE]:
        raise SetupError(f'cannot write to "{path}": the directory "{PRIVATE}" is the agent\'s')
    return root, parts


def write_inside(
    root: Path,
    relative: str,
    data: bytes,
    mode: int,
    uid: int | None = None,
    gid: int | None = None,
) -> None:
    """Replaces the file `relative` under `root` at once; directories on the way are made. Raises
    SetupError; one of a full disk may be tried again, and says how to make room."""
    *directories, name = relative_parts(relative)
    try:
        directory_fd = open_directory(root, directories)
        try:
            _replace(directory_fd, name, data, mode, (uid, gid))
        finally:
            os.close(directory_fd)
    except OSError as error:
        why = f'cannot write "{relative}": {error.strerror}'
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise SetupError(why) from None
        way_out = _MORE_SECRETS if directories[:1] == [SECRETS] else _MORE_DISK
        raise SetupError(f"{why}; {way_out}", recoverable=True) from None


def _replace(
    directory_fd: int, name: str, data: bytes, mode: int, owner: tuple[int | None, int | None]
) -> None:
    temporary = f".{name}.orchgit"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):  # a pipe there would hold the agent
        os.unlink(temporary, dir_fd=directory_fd)
    fd = os.open(temporary, flags, 0o600, dir_fd=directory_fd)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            uid, gid = (-1 if part is None else part for part in owner)
            os.fchown(file.fileno(), uid, gid)
            os.fchmod(file.fileno(), mode)
    except OSError:
        os.unlink(temporary, dir_fd=directory_fd)
        raise
    os.replace(temporary, name, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
