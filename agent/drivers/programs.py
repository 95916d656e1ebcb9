"""Where the program of a task is found among its own files, and its right to be executed.

A program that was downloaded as a single file or written by a template may not be executed yet.
The job names it as its command, so it gets that right: only a file that lies in the task's or the
allocation's directory, reached without links, and never one of the node.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from agent.drivers.base import TaskDir
from agent.paths import open_inside
from orchgit.errors import OrchgitError

_READ_BITS = 0o444
_EXECUTE_BITS = 0o111
_READ_TO_EXECUTE = 2  # places from a right to read to the right to execute of the same class


def find_on_host(command: str, directory: TaskDir) -> str | None:
    """Returns the path of `command` among the task's files, as the host sees them.

    The local directory comes before the task's own; an absolute path may lead into either, or into
    the allocation's. A file that is not executable is made so; one that cannot be is not found,
    and neither is a file of the node.
    """
    candidates = (os.path.join(base, command) for base in (directory.local_dir, directory.task_dir))
    for path in candidates:
        if os.path.isfile(path):
            make_executable(path, directory)
            if os.access(path, os.X_OK):
                return path
    return None


def find_in_root(command: str, work_dir: str, directory: TaskDir) -> str:
    """Returns the path of `command` in the root file system of a task, or `command` as it is.

    The root is the task's directory with the allocation's at /alloc. A command that is not among
    the task's files is left to the runtime, which looks it up on the task's PATH.
    """
    bases = ("/local", "/", *([work_dir] if "/" in command else []))
    for base in bases if command else ():
        path = os.path.normpath(os.path.join("/", base, command)).replace("//", "/")
        host_path = f"{directory.task_dir}{path}"
        if path.startswith("/alloc/"):
            host_path = f"{directory.alloc_dir}{path.removeprefix('/alloc')}"
        if os.path.isfile(host_path):
            make_executable(host_path, directory)
            return path
    return command


def make_executable(path: str, directory: TaskDir) -> None:
    """Lets those who may read the file also execute it; no file but the allocation's is changed."""
    real = os.path.realpath(path)
    roots = (os.path.realpath(root) for root in (directory.task_dir, directory.alloc_dir))
    root = next((root for root in roots if real.startswith(f"{root}/")), None)
    if root is None:
        return
    with contextlib.suppress(OSError, OrchgitError), contextlib.ExitStack() as stack:
        fd = open_inside(Path(root), os.path.relpath(real, root))
        stack.callback(os.close, fd)
        found = os.fstat(fd)
        mode = stat.S_IMODE(found.st_mode)
        # A file with a second name may be one of the node, to which the task made a link.
        is_own = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
        if is_own and not mode & _EXECUTE_BITS:
            os.fchmod(fd, mode | (mode & _READ_BITS) >> _READ_TO_EXECUTE)
