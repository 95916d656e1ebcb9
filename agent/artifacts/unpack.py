"""Unpacks an archive below one directory.

Every part of every name is opened by descriptor and without following links, whatever the archive
put there before: `tarfile`'s own filters resolve names as text first, which CVE-2025-4517 and
similar attacks pass. Budgets count the bytes that come out, not those that headers announce.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Protocol

from backports import zstd

from agent.artifacts.plan import FetchError, FetchLimits

_CHUNK_BYTES = 1 << 18
_FREE_OF_RATIO_BYTES = 64 << 20
_MAX_PATH_BYTES = 1024
_MAX_NAME_BYTES = 255
_MAX_DEPTH = 64
_MAX_ZSTD_WINDOW_LOG = 27
"""128 MiB, as the command `zstd` takes without being asked for more."""
_KEPT_MODE_BITS = 0o1777
_BROKEN = (
    *(
        tarfile.TarError,
        zipfile.BadZipFile,
        gzip.BadGzipFile,
        lzma.LZMAError,
        zlib.error,
        zstd.ZstdError,
    ),
    *(EOFError, NotImplementedError, RuntimeError, ValueError, OverflowError),
)
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def _gunzip(file: IO[bytes]) -> _Readable:
    return gzip.GzipFile(fileobj=file)


def _unzstd(file: IO[bytes]) -> _Readable:
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _MAX_ZSTD_WINDOW_LOG}
    return zstd.ZstdFile(file, options=options)


_READERS: dict[str, Callable[[IO[bytes]], _Readable]] = {
    "tar": lambda file: file,
    "gz": _gunzip,
    "bz2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
    "zst": _unzstd,
}


class UnpackBudget:
    """What may still be unpacked."""

    def __init__(self, limits: FetchLimits, archive_bytes: int) -> None:
        self._limits = limits
        by_ratio = max(limits.max_ratio * archive_bytes, _FREE_OF_RATIO_BYTES)
        self._by_ratio = by_ratio if limits.max_ratio else limits.max_unpacked_bytes
        self._bytes = 0
        self.entries = 0

    def spend(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._limits.max_unpacked_bytes:
            raise FetchError(f"it unpacks to more than {self._limits.max_unpacked_bytes} bytes")
        if self._bytes > self._by_ratio:
            raise FetchError(
                f"it unpacks to more than {self._limits.max_ratio} times its size; the agent's "
                "client.artifact.decompression_ratio_limit allows more"
            )

    def count_entry(self) -> None:
        self.entries += 1
        if self.entries > self._limits.max_files:
            raise FetchError(
                f"it has more than {self._limits.max_files} files; the agent's "
                "client.artifact.decompression_file_count_limit allows more"
            )


def unpack(archive: str, file: IO[bytes], tree_fd: int, budget: UnpackBudget) -> None:
    """Fills the directory `tree_fd`. Raises FetchError; what was unpacked by then stays."""
    tree = _Tree(tree_fd, budget)
    with _broken_is_fetch_error():
        if archive == "zip":
            _unpack_zip(file, tree, budget)
        else:
            compression = archive.removeprefix("tar.")
            _unpack_tar(_Counted(_READERS[compression](file), budget), tree, budget)
        tree.finish()
    if budget.entries == 0:
        raise FetchError("it is an empty archive")


def decompress(
    archive: str, file: IO[bytes], directory_fd: int, name: str, budget: UnpackBudget
) -> None:
    """One compressed file becomes the file `name`."""
    with _broken_is_fetch_error():
        _write(directory_fd, name, 0o644, _Counted(_READERS[archive](file), budget), budget=None)


@contextlib.contextmanager
def _broken_is_fetch_error() -> Iterator[None]:
    try:
        yield
    except FetchError:
        raise
    except MemoryError:
        raise FetchError("its headers are too large") from None
    except _BROKEN as error:
        raise FetchError(f"it cannot be unpacked: {str(error) or type(error).__name__}") from None
    except OSError as error:
        raise FetchError(f"it cannot be unpacked: {error.strerror or error}") from None


class _Counted(io.RawIOBase):
    """Reads on, and spends the budget by what comes out: padding and headers count too."""

    def __init__(self, inner: _Readable, budget: UnpackBudget) -> None:
        self._inner = inner
        self._budget = budget

    def read(self, size: int = -1, /) -> bytes:
        data = self._inner.read(_CHUNK_BYTES if size < 0 else size)
        self._budget.spend(len(data))
        return data


def _unpack_tar(stream: _Counted, tree: _Tree, budget: UnpackBudget) -> None:
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            budget.count_entry()
            parts = entry_parts(member.name)
            if member.isdir():
                tree.directory(parts, member.mode)
            elif member.issym():
                tree.link(parts, member.linkname)
            elif member.islnk():
                tree.copy(parts, entry_parts(member.linkname))
            elif member.isreg():
                content = tar.extractfile(member)
                assert content is not None
                # The stream has counted the bytes; those of a sparse file's holes are not in it.
                tree.file(parts, member.mode, content, counted=not member.issparse())
            else:
                raise FetchError(f'"{_shown(member.name)}" is a device, a pipe or of no known kind')


def _unpack_zip(file: IO[bytes], tree: _Tree, budget: UnpackBudget) -> None:
    with zipfile.ZipFile(file) as packed:
        for info in packed.infolist():
            budget.count_entry()
            parts, mode = entry_parts(info.filename), info.external_attr >> 16
            if info.is_dir():
                tree.directory(parts, 0o755)
                continue
            if info.flag_bits & 1:
                raise FetchError(f'"{_shown(info.filename)}" is encrypted')
            with packed.open(info) as content:
                if stat.S_ISLNK(mode):
                    target = content.read(_MAX_PATH_BYTES + 1)
                    tree.link(parts, os.fsdecode(target))
                elif stat.S_IFMT(mode) in (0, stat.S_IFREG):
                    tree.file(parts, stat.S_IMODE(mode) or 0o644, content, counted=False)
                else:
                    raise FetchError(f'"{_shown(info.filename)}" is a device or a pipe')


def _shown(name: str) -> str:
    return ascii(name[:200])[1:-1]


def entry_parts(name: str) -> list[str]:
    """Returns the parts of an entry's name; [] is the directory unpacked to.

    A leading `/` counts for nothing, as for tar itself.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise FetchError(f'"{_shown(name)}" leads out of the archive')
    if "\0" in name or len(os.fsencode(name)) > _MAX_PATH_BYTES or len(parts) > _MAX_DEPTH:
        raise FetchError(f'"{_shown(name)}" is too long or too deep, or no name of a file')
    if any(len(os.fsencode(part)) > _MAX_NAME_BYTES for part in parts):
        raise FetchError(f'"{_shown(name)}" is too long')
    return parts


def link_stays_inside(depth: int, target: str) -> bool:
    """Whether a link in a directory `depth` levels below the top can only lead to places inside.

    `..` may stand at the start only, where it climbs directories that are none of them links: one
    after a name could climb from wherever another link of the archive leads.
    """
    parts = [part for part in target.split("/") if part not in ("", ".")]
    climbs = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    inside = not target.startswith("/") and "\0" not in target and target != ""
    return inside and climbs <= depth and ".." not in parts[climbs:]


class _Tree:
    """What has been unpacked; directories get their modes at the end, so that all can be filled."""

    def __init__(self, root_fd: int, budget: UnpackBudget) -> None:
        self._root_fd = root_fd
        self._budget = budget
        self._files: set[tuple[str, ...]] = set()
        self._modes: dict[tuple[str, ...], int] = {}

    def directory(self, parts: list[str], mode: int) -> None:
        os.close(self._open(parts))
        if parts:
            self._modes[tuple(parts)] = mode & _KEPT_MODE_BITS

    def file(self, parts: list[str], mode: int, content: IO[bytes], counted: bool) -> None:
        with self._place(parts) as (directory_fd, name):
            budget = None if counted else self._budget
            _write(directory_fd, name, mode & _KEPT_MODE_BITS, content, budget)
        self._files.add(tuple(parts))

    def link(self, parts: list[str], target: str) -> None:
        if not link_stays_inside(len(parts) - 1, target):
            raise FetchError(
                f'"{_shown("/".join(parts))}" is a link to "{_shown(target)}", which is not inside'
            )
        with self._place(parts) as (directory_fd, name):
            os.symlink(target, name, dir_fd=directory_fd)

    def copy(self, parts: list[str], original: list[str]) -> None:
        """A hard link, as a file of its own: so no two names of the task's are one file."""
        if tuple(original) not in self._files or parts == original:
            raise FetchError(
                f'"{_shown("/".join(parts))}" is a hard link to "{_shown("/".join(original))}", '
                "which is no file of this archive before it"
            )
        *above, source_name = original
        source_dir_fd = self._open(above)
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(source_name, flags, dir_fd=source_dir_fd), "rb") as source:
                mode = stat.S_IMODE(os.fstat(source.fileno()).st_mode)
                self.file(parts, mode, source, counted=False)
        finally:
            os.close(source_dir_fd)

    def finish(self) -> None:
        for parts, mode in sorted(self._modes.items(), key=lambda one: -len(one[0])):
            with contextlib.suppress(FetchError):  # a later entry may have put a file there
                fd = self._open(list(parts), make=False)
                os.fchmod(fd, mode)
                os.close(fd)

    @contextlib.contextmanager
    def _place(self, parts: list[str]) -> Iterator[tuple[int, str]]:
        """The open directory and the name in it, with nothing there: later entries win."""
        if not parts:
            raise FetchError("it has a file without a name")
        *above, name = parts
        directory_fd = self._open(above)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory_fd)
            self._files.discard(tuple(parts))
            yield directory_fd, name
        except IsADirectoryError:
            raise FetchError(
                f'"{_shown("/".join(parts))}" is a directory and something else as well'
            ) from None
        finally:
            os.close(directory_fd)

    def _open(self, parts: list[str], make: bool = True) -> int:
        return make_directories(self._root_fd, parts, make)


def make_directories(root_fd: int, parts: list[str], make: bool = True) -> int:
    """Returns a descriptor of a directory below, which no link leads to. Raises FetchError."""
    fd = os.dup(root_fd)
    for part in parts:
        try:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=fd)
            inner = os.open(part, _DIRECTORY, dir_fd=fd)
        except OSError:
            raise FetchError(
                f'"{_shown("/".join(parts))}" passes through a link or a file'
            ) from None
        finally:
            os.close(fd)
        fd = inner
    return fd


def _write(
    directory_fd: int,
    name: str,
    mode: int,
    content: IO[bytes] | _Counted,
    budget: UnpackBudget | None,
) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=directory_fd), "wb") as file:
        while data := content.read(_CHUNK_BYTES):
            if budget is not None:
                budget.spend(len(data))
            file.write(data)
        os.fchmod(file.fileno(), mode)
