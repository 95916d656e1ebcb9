"""Takes over the data of a previous allocation that another node ran.

The servers say when that allocation has ended, where its data is, and prove to the other agent that
this one may have it. The data lies in a directory of its own until all of it is there.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import structlog

from agent.hooks.previous_alloc import move_all
from agent.migration.restore import read_snapshot
from agent.migration.snapshot import DATA_SIZE_HEADER, kept_directories
from agent.paths import AllocPaths
from orchgit.backoff import backoff_s
from orchgit.clock import Clock
from orchgit.errors import (
    InvalidInputError,
    NotAllowedError,
    NotFoundError,
    OrchgitError,
    UnavailableError,
)
from orchgit.model.allocation import Allocation
from orchgit.model.group import TaskGroup
from orchgit.whole_number import whole_number
from orchgit.wire.messages import MigrationSourceReply
from orchgit.wire.relay_proof import HEADER

_log = structlog.get_logger(component="agent")

_CANNOT = "Cannot move data of the previous allocation"
_KEPT_FREE_PERCENT = 5
_ATTEMPTS = 12
"""Over a minute in all: as long as the agent that has the data may need to start again."""
_FIRST_BACKOFF_S, _MAX_BACKOFF_S = 0.5, 10.0
_FINAL = (InvalidInputError, NotFoundError, NotAllowedError)
_FULL = (errno.ENOSPC, errno.EDQUOT)
"""A disk that is full stays full for long."""
_SILENCE_S = 60.0
_ARRIVING = ".arriving"

FindSource = Callable[[str], Awaitable[MigrationSourceReply]]
"""Asks the servers for the source of an allocation's data; UnavailableError without a server."""


class RemoteData:
    """`tls` makes what checks another agent's certificate; None: the node has no certificates."""

    def __init__(
        self, find_source: FindSource, clock: Clock, tls: Callable[[], ssl.SSLContext] | None
    ) -> None:
        self._find_source = find_source
        self._clock = clock
        self._tls = tls

    async def take_over(self, alloc: Allocation, group: TaskGroup, paths: AllocPaths) -> str:
        """Returns what was done, for the task's events. A migration that fails is no reason not to
        start: the allocation begins with empty directories then."""
        arriving, attempt = paths.root / _ARRIVING, 0
        while True:
            try:
                source = await self._ended_source(alloc.id)  # anew, since its proof ages
                if source.gone:
                    return f"{_CANNOT}: {source.gone}"
                await asyncio.to_thread(_make_empty, arriving)
                size = await self._fetch(source, arriving, group)
                names = kept_directories(task.name for task in group.tasks)
                moves = [(arriving / name, paths.root / name) for name in names]
                await asyncio.to_thread(move_all, moves)
                return f"Moved {size} bytes of data from node {source.node_id}"
            except (OrchgitError, OSError, httpx.HTTPError) as error:
                why = str(error) or type(error).__name__
                _log.warning("cannot move data", alloc=alloc.id, attempt=attempt, error=why)
                attempt += 1
                is_full = isinstance(error, OSError) and error.errno in _FULL
                if attempt == _ATTEMPTS or is_full or isinstance(error, _FINAL):
                    return f"{_CANNOT}: {why}"
                await self._clock.sleep(backoff_s(attempt - 1, _FIRST_BACKOFF_S, _MAX_BACKOFF_S))
            finally:
                await asyncio.to_thread(shutil.rmtree, arriving, ignore_errors=True)

    async def _ended_source(self, alloc_id: str) -> MigrationSourceReply:
        """Waits until the previous allocation has ended, as long as that takes."""
        attempt = 0
        while True:
            try:
                source = await self._find_source(alloc_id)
            except UnavailableError:
                delay_s = backoff_s(attempt, _FIRST_BACKOFF_S, _MAX_BACKOFF_S)
                await self._clock.sleep(delay_s)
                attempt += 1
                continue
            if not source.runs:
                return source

    async def _fetch(self, source: MigrationSourceReply, root: Path, group: TaskGroup) -> int:
        if source.url.startswith("https:") and self._tls is None:
            raise InvalidInputError(
                f"{source.url} serves HTTPS, and this agent has no certificates to check it with"
            )
        verify = self._tls() if self._tls is not None else False
        timeout = httpx.Timeout(_SILENCE_S)
        async with (
            httpx.AsyncClient(verify=verify, timeout=timeout, trust_env=False) as client,
            client.stream("GET", source.url, headers={HEADER.decode(): source.proof}) as answer,
        ):
            if answer.status_code != 200:
                text = (await answer.aread()).decode("utf-8", "replace")[:200]
                why = f"node {source.node_id} answers {answer.status_code}: {text}"
                raise (UnavailableError if answer.status_code >= 500 else InvalidInputError)(why)
            size_bytes = whole_number(answer.headers.get(DATA_SIZE_HEADER, "")) or 0
            disk = await asyncio.to_thread(os.statvfs, root)
            if problem := why_no_room(size_bytes, disk):
                raise InvalidInputError(problem)
            names = kept_directories(task.name for task in group.tasks)
            return await _into(answer, root, names)


def why_no_room(size_bytes: int, disk: os.statvfs_result) -> str:
    """Returns why data does not fit on the disk; "" where it does. A part of the disk stays free,
    since the node's other tasks write there too."""
    kept_bytes = disk.f_blocks * disk.f_frsize * _KEPT_FREE_PERCENT // 100
    room_bytes = max(0, disk.f_bavail * disk.f_frsize - kept_bytes)
    if size_bytes <= room_bytes:
        return ""
    return (
        f"it has {size_bytes} bytes, and the disk of this node has room for {room_bytes}; make "
        "room, or have the job placed on a node that has it"
    )


async def _into(answer: httpx.Response, root: Path, names: list[str]) -> int:
    """Feeds the answer to a thread, through a pipe."""
    reading, writing = os.pipe()

    def read() -> int:
        with os.fdopen(reading, "rb") as stream:
            return read_snapshot(stream, root, names)

    work = asyncio.ensure_future(asyncio.to_thread(read))
    try:
        async for data in answer.aiter_raw():
            await asyncio.to_thread(_write_all, writing, data)
    except BrokenPipeError:
        pass  # the thread's error says why
    finally:
        os.close(writing)
        await asyncio.wait((work,))
        work.exception()  # that of the answer, where it broke off, says more
    return work.result()


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _make_empty(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(mode=0o700)
