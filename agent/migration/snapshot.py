"""Writes what an allocation leaves to the one that replaces it as a tar stream.

The stream has `alloc/data` and each task's `local`. Files are opened by descriptor and without
following links; sockets and devices are left out. A file that grows or shrinks meanwhile has the
size that it had when it was opened.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from agent.paths import SHARED

DATA_SIZE_HEADER = "X-Orchgit-Data-Bytes"
_CHUNK_BYTES = 1 << 18
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def kept_directories(tasks: Iterable[str]) -> list[str]:
    """Returns the directories, below the allocation's own, that a replacement takes over."""
    return [f"{SHARED}/data", *(f"{task}/local" for task in tasks)]


def data_size_bytes(root: Path, tasks: Iterable[str]) -> int:
    """Returns the size of the files that a snapshot will have. Raises OSError."""
    root_fd, size = os.open(root, _DIRECTORY), 0
    try:
        for name in kept_directories(tasks):
            fd = _open_directory(root_fd, name)
            if fd is None:
                continue
            try:
                for _, _, files, at in os.fwalk(".", dir_fd=fd):
                    for each in files:
                        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                            about = os.stat(each, dir_fd=at, follow_symlinks=False)
                            size += about.st_size if stat.S_ISREG(about.st_mode) else 0
            finally:
                os.close(fd)
    finally:
        os.close(root_fd)
    return size


def write_snapshot(root: Path, tasks: Iterable[str], out: IO[bytes]) -> None:
    """Raises OSError where the reader has gone or a directory cannot be read."""
    root_fd = os.open(root, _DIRECTORY)
    try:
        with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            for name in kept_directories(tasks):
                for entry in _entries(root_fd, name):
                    entry.add_to(tar)
    finally:
        os.close(root_fd)


class _Entry:
    """One name of the tree, open where it is a file."""

    def __init__(self, name: str, about: os.stat_result, fd: int = -1, target: str = "") -> None:
        self._info = tarfile.TarInfo(name)
        self._info.mode = stat.S_IMODE(about.st_mode)
        self._info.uid, self._info.gid = about.st_uid, about.st_gid
        self._info.mtime = int(about.st_mtime)
        self._fd = fd
        if stat.S_ISDIR(about.st_mode):
            self._info.type = tarfile.DIRTYPE
        elif target:
            self._info.type, self._info.linkname = tarfile.SYMTYPE, target
        else:
            self._info.size = about.st_size

    def add_to(self, tar: tarfile.TarFile) -> None:
        if self._fd < 0:
            tar.addfile(self._info)
            return
        with os.fdopen(self._fd, "rb") as file:
            tar.addfile(self._info, _Padded(file, self._info.size))


class _Padded(io.RawIOBase):
    """Exactly as many bytes as were announced; zeros for what is gone."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int = -1, /) -> bytes:
        wanted = min(self._left, _CHUNK_BYTES if size < 0 else size)
        data = self._file.read(wanted).ljust(wanted, b"\0")
        self._left -= wanted
        return data


def _entries(root_fd: int, name: str) -> Iterator[_Entry]:
    """Yields the directory `name` and everything below it, directories first; nothing if it is no
    directory, or behind a link."""
    fd = _open_directory(root_fd, name)
    if fd is None:
        return
    try:
        yield _Entry(name, os.fstat(fd))
        yield from _below(fd, name)
    finally:
        os.close(fd)


def _open_directory(root_fd: int, name: str) -> int | None:
    """Returns a descriptor; None if the name is no directory, or behind a link."""
    fd = os.dup(root_fd)
    try:
        for part in name.split("/"):
            inner = os.open(part, _DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = inner
    except OSError:
        os.close(fd)
        return None
    return fd


def _below(fd: int, above: str) -> Iterator[_Entry]:
    for name in sorted(os.listdir(fd)):
        path = f"{above}/{name}"
        try:
            about = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if stat.S_ISDIR(about.st_mode):
                inner = os.open(name, _DIRECTORY, dir_fd=fd)
            elif stat.S_ISREG(about.st_mode):
                inner = os.open(name, _FILE, dir_fd=fd)
                about = os.fstat(inner)
            elif stat.S_ISLNK(about.st_mode):
                yield _Entry(path, about, target=os.readlink(name, dir_fd=fd))
                continue
            else:
                continue
        except FileNotFoundError:  # removed meanwhile
            continue
        if stat.S_ISREG(about.st_mode):
            yield _Entry(path, about, inner)
            continue
        try:
            yield _Entry(path, about)
            yield from _below(inner, path)
        finally:
            os.close(inner)
