"""Reads the tar stream of another node's agent into a directory of this node.

The names come from tasks: every part of a name is opened by descriptor and without following
links, whatever the stream put there before. Owners are kept where the agent is root.
"""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
from collections.abc import Collection
from pathlib import Path
from typing import IO

from orchgit.errors import InvalidInputError

_CHUNK_BYTES = 1 << 18
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE_BITS = 0o7777
_END_OF_TAR = bytes(2 * tarfile.BLOCKSIZE)


def read_snapshot(stream: IO[bytes], root: Path, wanted: Collection[str]) -> int:
    """Returns the bytes of all files. Only what lies in the `wanted` directories is taken.

    Raises InvalidInputError for a stream that is cut off or no snapshot, and OSError.
    """
    root_fd, size = os.open(root, _DIRECTORY), 0
    directories: list[tuple[list[str], tarfile.TarInfo]] = []
    try:
        with tarfile.open(fileobj=_WholeStream(stream), mode="r|") as tar:
            for member in tar:
                parts = member.name.split("/")
                if "/".join(parts[:2]) not in wanted or {"", ".", ".."} & {*parts}:
                    raise InvalidInputError(f'"{member.name[:200]}" does not belong to a snapshot')
                if member.isdir():
                    os.close(_open(root_fd, parts))
                    directories.append((parts, member))
                    continue
                directory_fd = _open(root_fd, parts[:-1])
                try:
                    size += _place(tar, member, directory_fd, parts[-1])
                finally:
                    os.close(directory_fd)
        for parts, member in reversed(directories):
            fd = _open(root_fd, parts)
            try:
                _own(fd, member)
            finally:
                os.close(fd)
    except (tarfile.TarError, EOFError) as error:
        raise InvalidInputError(f"the snapshot cannot be read: {error}") from None
    finally:
        os.close(root_fd)
    return size


class _WholeStream(io.RawIOBase):
    """Reads on; a stream that ends before the end of the archive is an error, as `tarfile` takes a
    cut at a block for the end."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._last = b""

    def read(self, size: int = -1, /) -> bytes:
        data = b""
        while len(data) < size and (more := self._stream.read(size - len(data))):
            data += more
        self._last = (self._last + data)[-len(_END_OF_TAR) :]
        if len(data) < size and self._last != _END_OF_TAR:
            raise EOFError("it ends too early")
        return data


def _place(tar: tarfile.TarFile, member: tarfile.TarInfo, directory_fd: int, name: str) -> int:
    if member.issym():
        os.symlink(member.linkname, name, dir_fd=directory_fd)
        if os.geteuid() == 0:
            os.chown(name, member.uid, member.gid, dir_fd=directory_fd, follow_symlinks=False)
        return 0
    content = tar.extractfile(member) if member.isreg() else None
    if content is None:
        raise InvalidInputError(f'"{member.name[:200]}" is no file, directory or link')
    with os.fdopen(os.open(name, _NEW_FILE, 0o600, dir_fd=directory_fd), "wb") as file:
        while data := content.read(_CHUNK_BYTES):
            file.write(data)
        _own(file.fileno(), member)
    return member.size


def _own(fd: int, member: tarfile.TarInfo) -> None:
    if os.geteuid() == 0:
        os.fchown(fd, member.uid, member.gid)
    os.fchmod(fd, member.mode & _MODE_BITS)
    os.utime(fd, (member.mtime, member.mtime))


def _open(root_fd: int, parts: list[str]) -> int:
    fd = os.dup(root_fd)
    for part in parts:
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=fd)
            inner = os.open(part, _DIRECTORY, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd
