"""A snapshot of the whole state as one file: a gzipped tar whose every byte is checksummed.

The members are named as in Nomad's archives, so that its tools can save and verify ours:
`meta.json` (index, term, and under `Orchgit` what this program needs to know), `state.bin` (the
store, a SQLite database), `SHA256SUMS` (of the others). Where the git objects were asked for, which
Nomad's tools do not do and would not take, there are `git/NAME.pack` too, one for each repository.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import shutil
import sqlite3
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from orchgit.errors import InvalidInputError, RefusedError
from orchgit.state import schema

FORMAT = 2
"""1: without packs."""
_META, _STATE, _SUMS = "meta.json", "state.bin", "SHA256SUMS"
_MEMBERS = frozenset((_META, _STATE, _SUMS))
_COPY_BYTES = 1 << 20
_SQLITE = b"SQLite format 3\0"
_HEADER_LIMIT_BYTES = 1 << 20
_META_LIMIT_BYTES = 1 << 20
_PACK = re.compile(r"git/([a-z0-9-]{1,64})\.pack")
_USTAR_LIMIT_BYTES = 8 << 30


class PackedRepository(msgspec.Struct, rename="pascal"):
    name: str
    size: int


class Origin(msgspec.Struct, rename="pascal"):
    """Where a snapshot comes from. `format` and `schema_version` decide who can read it.
    `lost_objects` are those of the repositories that no server had. `redacted`: the secrets were
    taken out, so no cluster can be restored from it."""

    format: int = 1
    schema_version: int = 0
    build: str = ""
    cluster_id: str = msgspec.field(default="", name="ClusterID")
    region: str = ""
    taken_ns: int = msgspec.field(default=0, name="TakenNS")
    repositories: list[PackedRepository] = []
    lost_objects: int = 0
    redacted: bool = False


class ArchiveMeta(msgspec.Struct, rename="pascal"):
    """`size` is that of the state; `id` names term, index and time, as Raft's snapshots do."""

    version: int = 1
    id: str = msgspec.field(default="", name="ID")
    index: int = 0
    term: int = 0
    size: int = 0
    orchgit: Origin | None = None

    @property
    def origin(self) -> Origin:
        assert self.orchgit is not None
        return self.orchgit

    def refuse_redacted(self) -> None:
        """Raises RefusedError for an archive that no cluster can be restored from."""
        if self.origin.redacted:
            raise RefusedError(
                "cannot restore a redacted snapshot: its tokens, keys and variables were taken "
                "out, so the cluster would lose its own; restore one that was saved without "
                "-redact"
            )


def write_archive(
    out: IO[bytes], meta: ArchiveMeta, state: Path, packs: Mapping[str, Path] | None = None
) -> None:
    """`meta.size`, and what it says of the `packs` (by repository), is set here."""
    files = {_STATE: state, **{f"git/{name}.pack": path for name, path in (packs or {}).items()}}
    sizes = {name: path.stat().st_size for name, path in files.items()}
    meta.size = sizes[_STATE]
    if meta.orchgit is not None:
        meta.orchgit.format = FORMAT if packs else 1
        meta.orchgit.repositories = [
            PackedRepository(name, sizes[f"git/{name}.pack"]) for name in packs or ()
        ]
    head = msgspec.json.encode(meta)
    lines = [f"{hashlib.sha256(head).hexdigest()}  {_META}\n"]
    for name, path in files.items():
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    sums = "".join(lines).encode()
    is_large = max(sizes.values()) >= _USTAR_LIMIT_BYTES
    with (
        gzip.GzipFile(fileobj=out, mode="wb", compresslevel=1, mtime=0, filename="") as packed,
        tarfile.open(
            fileobj=packed,
            mode="w|",
            format=tarfile.GNU_FORMAT if is_large else tarfile.USTAR_FORMAT,
        ) as tar,
    ):
        _add(tar, _META, len(head), io.BytesIO(head))
        for name, path in files.items():
            with path.open("rb") as file:
                _add(tar, name, sizes[name], file)
        _add(tar, _SUMS, len(sums), io.BytesIO(sums))


def _add(tar: tarfile.TarFile, name: str, size: int, content: IO[bytes]) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    tar.addfile(member, content)


def read_archive(file: IO[bytes], state: Path, packs: Path | None = None) -> ArchiveMeta:
    """Check every byte and unpack the state to `state`, and the packs of repositories into the
    directory `packs` as NAME.pack, if it is given; they are left only if all is well.

    Raises InvalidInputError, which says what is wrong: damage, another program's archive, or one
    of a newer version of this program.
    """
    try:
        with _translated():
            meta = _unpacked(file, state, packs)
        _check_readable(meta)
        _check_state(meta, state)
    except BaseException:
        state.unlink(missing_ok=True)
        if packs is not None:
            shutil.rmtree(packs, ignore_errors=True)
        raise
    return meta


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(str(error) or "it ends too early") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _damaged(f"its {_META} cannot be read") from error


class _Metered(io.RawIOBase):
    """Reads on while something is left: `tarfile` takes headers of any size into memory."""

    def __init__(self, inner: gzip.GzipFile) -> None:
        self._inner = inner
        self.left = _HEADER_LIMIT_BYTES

    def read(self, size: int = -1, /) -> bytes:
        data = self._inner.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise _damaged("its headers are too large")
        return data


def _unpacked(file: IO[bytes], state: Path, packs: Path | None) -> ArchiveMeta:
    found: dict[str, bytes] = {}
    sums: dict[str, str] = {}
    sizes: dict[str, int] = {}
    if packs is not None:
        packs.mkdir()
    with gzip.GzipFile(fileobj=file, mode="rb") as packed:
        stream = _Metered(packed)
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                stream.left = member.size + _HEADER_LIMIT_BYTES
                pack = _PACK.fullmatch(member.name)
                known = member.name in _MEMBERS or pack is not None
                if not member.isreg() or member.name in sums or not known:
                    raise _damaged(f"{member.name!r} does not belong in it")
                content = tar.extractfile(member)
                assert content is not None
                if member.name == _STATE:
                    sums[_STATE] = _unpack(content, member.size, state)
                    continue
                if pack is not None:
                    path = packs / f"{pack[1]}.pack" if packs is not None else None
                    sums[member.name] = _unpack(content, member.size, path)
                    sizes[pack[1]] = member.size
                    continue
                if member.size > _META_LIMIT_BYTES:
                    raise _damaged(f"{member.name} is too large")
                data = found[member.name] = content.read()
                sums[member.name] = hashlib.sha256(data).hexdigest()
        while packed.read(_COPY_BYTES):  # to the end, where gzip has a checksum of its own
            pass
    if missing := _MEMBERS - set(sums):
        raise _damaged(f"it lacks {', '.join(sorted(missing))}")
    given = _parsed_sums(found[_SUMS])
    if wrong := [name for name in sums if name != _SUMS and given.get(name) != sums[name]]:
        raise _damaged(f"the checksum of {', '.join(wrong)} does not match")
    meta = msgspec.json.decode(found[_META], type=ArchiveMeta)
    told = {one.name: one.size for one in meta.orchgit.repositories} if meta.orchgit else {}
    if told != sizes:
        raise _damaged("its repositories are not those that it names")
    return meta


def _unpack(content: IO[bytes], size: int, path: Path | None) -> str:
    """The SHA-256; without a path that is all."""
    if path is not None and size > (free := shutil.disk_usage(path.parent).free):
        raise InvalidInputError(
            f"cannot unpack the snapshot: it needs {size} bytes and {path.parent} has {free} left"
        )
    digest = hashlib.sha256()
    with path.open("wb") if path is not None else io.BytesIO() as out:
        while data := content.read(_COPY_BYTES):
            digest.update(data)
            if path is not None:
                out.write(data)
    return digest.hexdigest()


def _parsed_sums(data: bytes) -> dict[str, str]:
    lines = [line.split("  ", 1) for line in data.decode().splitlines()]
    if any(len(parts) != 2 for parts in lines):
        raise _damaged(f"its {_SUMS} cannot be read")
    return {name: digest for digest, name in lines}


def _check_readable(meta: ArchiveMeta) -> None:
    if meta.orchgit is None:
        raise InvalidInputError(
            "cannot use the snapshot: it was made by another program (Nomad's have the same form); "
            "move jobs from a Nomad cluster with `orchgit import`"
        )
    known = len(schema.MIGRATIONS)
    if meta.origin.format > FORMAT or meta.origin.schema_version > known:
        raise InvalidInputError(
            f"cannot use the snapshot: orchgit {meta.origin.build} made it, which is newer (state "
            f"version {meta.origin.schema_version}, this one reads up to {known}); upgrade first"
        )


def _check_state(meta: ArchiveMeta, state: Path) -> None:
    """What was written is checked, not only what was received: a full or failing disk shows."""
    with state.open("rb") as file:
        magic = file.read(len(_SQLITE))
    if magic != _SQLITE or state.stat().st_size != meta.size:
        raise _damaged(f"its {_STATE} is no state of {meta.size} bytes")
    connection = sqlite3.connect(f"file:{state}?mode=ro", uri=True)
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (answer,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        raise _damaged(f"its {_STATE}: {error}") from error
    finally:
        connection.close()
    if answer != "ok" or version != meta.origin.schema_version:
        raise _damaged(f"its {_STATE} is not what its {_META} says")


def _damaged(what: str) -> InvalidInputError:
    return InvalidInputError(
        f"cannot use the snapshot: it is damaged or no snapshot at all ({what}); take another one"
    )
