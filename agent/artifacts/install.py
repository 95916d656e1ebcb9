"""Moves fetched files into a task's directory, which the task may change meanwhile.

Both sides are walked by descriptors and without following links. Everything that the fetching
process left is checked before anything is moved: it is not trusted more than the archive.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from dataclasses import dataclass

from agent.artifacts.plan import FetchError
from agent.artifacts.unpack import link_stays_inside

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE_BITS = 0o1777
_COPY = ".orchgit-copy"
"""Where a file is copied to before it takes its name."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The new owner of the files. None: their owner stays, as only root can change it."""

    ids: tuple[int, int] | None


def install_tree(source_fd: int, destination_fd: int, owner: Owner) -> None:
    """Everything in one directory goes into the other; files there before are replaced."""
    _check(source_fd, depth=0)
    _move(source_fd, destination_fd, owner)


def install_file(source_fd: int, source: str, destination_fd: int, name: str, owner: Owner) -> None:
    """One file takes the place of the file or link `name`."""
    if not stat.S_ISREG(os.stat(source, dir_fd=source_fd, follow_symlinks=False).st_mode):
        raise FetchError("it is no regular file")
    _set_owner_and_mode(source_fd, source, owner)
    _rename(source_fd, source, destination_fd, name)


def _check(fd: int, depth: int) -> None:
    """The fetching process might be another program by now: only files, directories and links to
    places inside are taken over."""
    for name in os.listdir(fd):
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            inner = os.open(name, _DIRECTORY, dir_fd=fd)
            try:
                _check(inner, depth + 1)
            finally:
                os.close(inner)
        elif stat.S_ISLNK(found.st_mode):
            if not link_stays_inside(depth, os.readlink(name, dir_fd=fd)):
                raise FetchError(f'its link "{name}" leads out of the destination')
        elif not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise FetchError(f'"{name}" in it is no file of its own')


def _move(source_fd: int, destination_fd: int, owner: Owner) -> None:
    for name in sorted(os.listdir(source_fd)):
        found = os.stat(name, dir_fd=source_fd, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode):
            _set_owner_and_mode(source_fd, name, owner)
            _rename(source_fd, name, destination_fd, name)
            continue
        inner_source = os.open(name, _DIRECTORY, dir_fd=source_fd)
        inner_destination = -1
        try:
            made = True
            try:
                os.mkdir(name, 0o700, dir_fd=destination_fd)
            except FileExistsError:
                made = False
            inner_destination = os.open(name, _DIRECTORY, dir_fd=destination_fd)
            _move(inner_source, inner_destination, owner)
            if made:
                if owner.ids is not None:
                    os.fchown(inner_destination, *owner.ids)
                os.fchmod(inner_destination, found.st_mode & _MODE_BITS)
        finally:
            os.close(inner_source)
            if inner_destination >= 0:
                os.close(inner_destination)


def _set_owner_and_mode(fd: int, name: str, owner: Owner) -> None:
    if owner.ids is not None:
        os.chown(name, *owner.ids, dir_fd=fd, follow_symlinks=False)
    with contextlib.suppress(OSError):  # of a link: the name is opened to set a file's own mode
        file_fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
        try:
            os.fchmod(file_fd, os.fstat(file_fd).st_mode & _MODE_BITS)
        finally:
            os.close(file_fd)


def _rename(source_fd: int, source: str, destination_fd: int, name: str) -> None:
    try:
        try:
            os.rename(source, name, src_dir_fd=source_fd, dst_dir_fd=destination_fd)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            try:
                _copy(source_fd, source, destination_fd)
                os.rename(_COPY, name, src_dir_fd=destination_fd, dst_dir_fd=destination_fd)
            except OSError:
                _remove_copy(destination_fd)
                raise
    except IsADirectoryError:
        raise FetchError(f'"{name}" is a directory in the destination') from None


def _copy(source_fd: int, source: str, destination_fd: int) -> None:
    """Copies a file or link into another file system: a task's secrets lie in memory."""
    _remove_copy(destination_fd)  # of an agent that was killed meanwhile
    found = os.stat(source, dir_fd=source_fd, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(source, dir_fd=source_fd), _COPY, dir_fd=destination_fd)
    else:
        from_fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=source_fd)
        with open(from_fd, "rb") as read:
            to_fd = os.open(_COPY, _NEW_FILE, 0o600, dir_fd=destination_fd)
            with open(to_fd, "wb") as written:
                shutil.copyfileobj(read, written)
                os.fchmod(to_fd, found.st_mode & _MODE_BITS)
    if os.geteuid() == 0:
        os.chown(_COPY, found.st_uid, found.st_gid, dir_fd=destination_fd, follow_symlinks=False)


def _remove_copy(destination_fd: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_COPY, dir_fd=destination_fd)
