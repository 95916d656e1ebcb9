"""Gitops sources: create, change, pause, delete, and note what the reconciler saw."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from orchgit.errors import InvalidInputError, NotFoundError
from orchgit.model.source import Source, SourceKind, SourceStatus, is_source_name
from orchgit.replication.commands import (
    DeleteSource,
    MoveRefs,
    RefMove,
    UpdateSourceStatus,
    UpsertSource,
)
from orchgit.services.world import World

MIN_POLL_INTERVAL_NS = 1_000_000_000


async def put_source(world: World, source: Source) -> int:
    """Create or change a source's settings; its status stays as it is."""
    _check(source)
    applied = await world.propose(UpsertSource(now_ns=world.now_ns(), source=source))
    return applied.index


async def pause_source(world: World, name: str, paused: bool) -> int:
    with world.snapshot() as snapshot:
        source = snapshot.source(name)
    if source is None:
        raise _unknown(name)
    return await put_source(world, replace(source, paused=paused))


async def delete_source(world: World, name: str) -> int:
    """Stop following a repository; its jobs stay registered and keep running."""
    with world.snapshot() as snapshot:
        if snapshot.source(name) is None:
            raise _unknown(name)
    applied = await world.propose(DeleteSource(now_ns=world.now_ns(), name=name))
    return applied.index


async def record_source_status(world: World, name: str, status: SourceStatus) -> int:
    applied = await world.propose(
        UpdateSourceStatus(now_ns=world.now_ns(), name=name, status=status)
    )
    return applied.index


async def move_refs(world: World, name: str, moves: Sequence[RefMove]) -> int:
    """Move refs of a built-in repository. Raises ConflictError if one moved meanwhile."""
    applied = await world.propose(MoveRefs(now_ns=world.now_ns(), source=name, moves=list(moves)))
    return applied.index


def _unknown(name: str) -> NotFoundError:
    return NotFoundError(f'cannot find source "{name}"; `orchgit source list` shows them')


def _check(source: Source) -> None:
    where = f'cannot store source "{source.name}"'
    if not is_source_name(source.name):
        raise InvalidInputError(
            f"{where}: a name has 1-64 lower-case letters, digits and inner dashes"
        )
    if source.kind not in tuple(SourceKind):
        raise InvalidInputError(f"{where}: kind must be one of {', '.join(SourceKind)}")
    if source.kind != SourceKind.BUILTIN and not source.url:
        raise InvalidInputError(f"{where}: a {source.kind} source needs a url")
    if not source.paths:
        raise InvalidInputError(f"{where}: it needs at least one path glob")
    if source.poll_interval_ns < MIN_POLL_INTERVAL_NS:
        raise InvalidInputError(f"{where}: the poll interval must be at least 1s")
    if not 0 <= source.prune.max_share_percent <= 100:
        raise InvalidInputError(f"{where}: prune share must be within 0..100 percent")
