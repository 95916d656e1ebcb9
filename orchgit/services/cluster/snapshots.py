"""Saves the whole state as one archive, and restores an archive on every server."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import shutil
import sqlite3
import tempfile
from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from orchgit import __version__
from orchgit.errors import OrchgitError, RefusedError, UnavailableError
from orchgit.model.variable import RootKey
from orchgit.replication.archive import ArchiveMeta, Origin, read_archive, write_archive
from orchgit.replication.commands.restoring import (
    AbortRestore,
    AddRestoreChunk,
    BeginRestore,
    CommitRestore,
)
from orchgit.services.context import UseCaseContext
from orchgit.services.secrets.keyring import Keyring
from orchgit.state import schema
from orchgit.state.snapshot import Snapshot, StateReads
from orchgit.state.store import Store

CHUNK_BYTES = 1 << 20
_PREFIX = "operator-snapshot-"
_STATE, _GIT = "state.db", "git"
_ROOM = 4
"""The leader's disk must have this many times the archive's unpacked size free: for the pieces, for
what they unpack to, and for the state's own growth."""
_COMMIT_S = 600.0


@dataclass(slots=True)
class SavedSnapshot:
    """A saved archive. `file` is open at its beginning and has no name: closing it deletes it."""

    file: IO[bytes]
    size: int
    digest: str
    """The archive's digest, in the form of the `Digest` header."""
    meta: ArchiveMeta


class Repositories(Protocol):
    """The git repositories that this cluster hosts (`orchgit.gitops.mirrors.backup`)."""

    def wanted(self, state: StateReads) -> Mapping[str, Collection[str]]:
        """Returns the objects that the state names, by repository."""
        ...

    async def pack(
        self, wanted: Mapping[str, Collection[str]], directory: Path
    ) -> tuple[Mapping[str, Path], int]:
        """Writes a pack of each repository into `directory`.

        Returns the packs by repository, and how many objects no server has.
        """
        ...

    async def take(self, wanted: Mapping[str, Collection[str]], packs: Mapping[str, Path]) -> None:
        """Stores the packs; returns when a majority of the servers has their objects."""
        ...


async def save_snapshot(
    context: UseCaseContext,
    region: str,
    stale: bool = False,
    repositories: Repositories | None = None,
) -> SavedSnapshot:
    """Returns the state as it is now, with the objects of `repositories` where they are given.

    With `stale`, the state as this server knows it, even if it does not lead.
    """
    if not stale:
        await context.state.reads.read_index()
    store = context.state.store
    with _workplace(store) as directory:
        meta, wanted = await asyncio.to_thread(
            _copied,
            store,
            directory,
            repositories,
            context.state.cluster.term,
            region,
            context.now_ns(),
        )
        packs: Mapping[str, Path] = {}
        if repositories is not None:
            packs, meta.origin.lost_objects = await repositories.pack(wanted, directory / _GIT)
        return await asyncio.to_thread(_archived, store, meta, directory / _STATE, packs)


def _copied(
    store: Store,
    directory: Path,
    repositories: Repositories | None,
    term: int,
    region: str,
    now_ns: int,
) -> tuple[ArchiveMeta, Mapping[str, Collection[str]]]:
    with store.snapshot() as snapshot:
        meta = _meta(snapshot, term, region, now_ns)
        _copy(snapshot, directory / _STATE)
        return meta, repositories.wanted(snapshot) if repositories is not None else {}


def _archived(
    store: Store, meta: ArchiveMeta, state: Path, packs: Mapping[str, Path]
) -> SavedSnapshot:
    # The caller, who sends the file, closes it; this function does if it cannot be made.
    file = tempfile.TemporaryFile(dir=store.path.parent)  # noqa: SIM115
    try:
        write_archive(file, meta, state, packs)
        size = file.tell()
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").digest()
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return SavedSnapshot(file, size, f"sha-256={b64encode(digest).decode()}", meta)


def _meta(snapshot: Snapshot, term: int, region: str, now_ns: int) -> ArchiveMeta:
    origin = Origin(
        schema_version=len(schema.MIGRATIONS),
        build=__version__,
        cluster_id=snapshot.meta.cluster_id() or "",
        region=region,
        taken_ns=now_ns,
    )
    return ArchiveMeta(
        id=f"{term}-{snapshot.index}-{now_ns // 1_000_000}",
        index=snapshot.index,
        term=term,
        orchgit=origin,
    )


def _copy(snapshot: Snapshot, path: Path) -> None:
    """Copies the state, without the pieces of a restore that is under way."""
    target = sqlite3.connect(path, isolation_level=None)
    try:
        target.execute("PRAGMA synchronous = OFF")
        snapshot.connection.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")
        if target.execute("DELETE FROM restore_chunks").rowcount:
            target.execute("VACUUM")
        target.execute("DELETE FROM meta WHERE key = 'restoring'")
    finally:
        target.close()


@dataclass(frozen=True, slots=True)
class Restored:
    index: int
    meta: ArchiveMeta


async def restore_snapshot(
    context: UseCaseContext,
    keyring: Keyring,
    archive: IO[bytes],
    force: bool = False,
    repositories: Repositories | None = None,
) -> Restored:
    """Checks the archive and replaces the state by it on every server.

    Nothing is changed unless the whole archive is sound. What is written meanwhile is replaced too.
    Git objects go to a majority of the servers first, beside the log: the state never names objects
    that no server has. Without `force`, an archive whose variables this server could not open is
    refused. A redacted archive is refused always.
    """
    store = context.state.store
    with _workplace(store) as directory:
        checked = await asyncio.to_thread(_checked, store, archive, directory, repositories)
        if not force:
            _check_keys(keyring, checked.keys)
        if repositories is not None and checked.packs:
            await repositories.take(checked.wanted, checked.packs)
        state = await asyncio.to_thread(_state_alone, archive, checked, directory)
        try:
            return Restored(await _replace(context, state), checked.meta)
        finally:
            if state is not archive:
                state.close()


async def _replace(context: UseCaseContext, archive: IO[bytes]) -> int:
    restore_id = context.ids.new()
    await context.propose(BeginRestore(restore_id=restore_id))
    try:
        sha256 = await _send(context, restore_id, archive)
        applied = await context.propose(
            CommitRestore(restore_id=restore_id, sha256=sha256), timeout_s=_COMMIT_S
        )
    except BaseException:
        with contextlib.suppress(OrchgitError):
            await context.propose(AbortRestore(restore_id=restore_id))
        raise
    return applied.index


@dataclass(frozen=True, slots=True)
class _Checked:
    meta: ArchiveMeta
    keys: list[RootKey]
    packs: Mapping[str, Path]
    wanted: Mapping[str, Collection[str]]


def _checked(
    store: Store, archive: IO[bytes], directory: Path, repositories: Repositories | None
) -> _Checked:
    state, packs = directory / _STATE, directory / _GIT
    meta = read_archive(archive, state, packs)
    meta.refuse_redacted()
    free = shutil.disk_usage(directory).free + meta.size
    if free < _ROOM * meta.size:
        raise UnavailableError(
            f"cannot restore: the state has {meta.size} bytes, {_ROOM} times as much has to be "
            f"free, and the disk of {store.path.parent} has {free}; make room on every server"
        )
    found = {one.name: packs / f"{one.name}.pack" for one in meta.origin.repositories}
    with _reading(state) as reads:
        keys = reads.root_keys.all() if _has_root_keys(reads.connection) else []
        wanted = repositories.wanted(reads) if repositories is not None and found else {}
    return _Checked(meta, keys, found, wanted)


def _state_alone(archive: IO[bytes], checked: _Checked, directory: Path) -> IO[bytes]:
    """Returns the archive without the packs, which need not go through the log.

    The caller closes the result if it is not the archive itself.
    """
    state = directory / _STATE
    if not checked.packs:
        state.unlink()
        return archive
    file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115
    write_archive(file, checked.meta, state)
    state.unlink()
    return file


@contextlib.contextmanager
def _reading(state: Path) -> Iterator[StateReads]:
    reads = StateReads(sqlite3.connect(f"file:{state}?mode=ro", uri=True))
    try:
        yield reads
    finally:
        reads.connection.close()


def _has_root_keys(connection: sqlite3.Connection) -> bool:
    """Returns whether the state has the table; states older than variables have not."""
    sql = "SELECT 1 FROM sqlite_master WHERE name = 'root_keys'"
    return connection.execute(sql).fetchone() is not None


def _check_keys(keyring: Keyring, keys: list[RootKey]) -> None:
    closed = [key.key_id for key in keys if not keyring.opens(key)]
    if closed:
        raise RefusedError(
            f"cannot restore: root key {', '.join(closed)} of the snapshot does not open with this "
            "cluster's key file, so its variables could not be read; put the key file of the "
            "cluster that the snapshot is of on every server (server.cluster_key_file) and restart "
            "them, or restore with -force and lose the variables"
        )


async def _send(context: UseCaseContext, restore_id: str, archive: IO[bytes]) -> str:
    """Sends the archive into the log, piece by piece; returns the SHA-256 of the whole."""
    archive.seek(0)
    digest = hashlib.sha256()
    seq = 0
    while data := await asyncio.to_thread(archive.read, CHUNK_BYTES):
        digest.update(data)
        await context.propose(AddRestoreChunk(restore_id=restore_id, seq=seq, data=data))
        seq += 1
    return digest.hexdigest()


@contextlib.contextmanager
def _workplace(store: Store) -> Iterator[Path]:
    """Makes a directory beside the state, where there has to be room for another state."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=store.path.parent) as directory:
        yield Path(directory)


def remove_leftovers(directory: Path) -> None:
    """Removes the files of a save or restore during which the server was killed.

    Called before either may begin.
    """
    for left in directory.glob(f"{_PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)
