"""Takes over the data of a previous allocation that another node ran.

The servers say when that allocation has ended, where its data is, and prove to the other agent that
this one may have it. The data lies in a directory of its own until all of it is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import structlog

from agent.hooks.previous_alloc import move_all
from agent.migration.restore import read_snapshot
from agent.migration.snapshot import kept_directories
from agent.paths import AllocPaths
from orchgit.backoff import backoff_s
from orchgit.clock import Clock
from orchgit.errors import InvalidInputError, OrchgitError, UnavailableError
from orchgit.model.allocation import Allocation
from orchgit.model.group import TaskGroup
from orchgit.wire.messages import MigrationSourceReply
from orchgit.wire.relay_proof import HEADER

_log = structlog.get_logger(component="agent")

_ATTEMPTS = 4
_FIRST_BACKOFF_S, _MAX_BACKOFF_S = 0.5, 10.0
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
        try:
            source = await self._ended_source(alloc.id)
        except OrchgitError as error:
            return f"Cannot move data of the previous allocation: {error}"
        if source.gone:
            return f"Cannot move data of the previous allocation: {source.gone}"
        arriving = paths.root / _ARRIVING
        for attempt in range(_ATTEMPTS):
            try:
                await asyncio.to_thread(_make_empty, arriving)
                size = await self._fetch(source, arriving, group)
                names = kept_directories(task.name for task in group.tasks)
                moves = [(arriving / name, paths.root / name) for name in names]
                await asyncio.to_thread(move_all, moves)
                return f"Moved {size} bytes of data from node {source.node_id}"
            except (OrchgitError, OSError, httpx.HTTPError) as error:
                why = str(error) or type(error).__name__
                _log.warning("cannot move data", alloc=alloc.id, source=source.url, error=why)
                if attempt + 1 == _ATTEMPTS or isinstance(error, InvalidInputError):
                    break
                delay_s = backoff_s(attempt, _FIRST_BACKOFF_S, _MAX_BACKOFF_S)
                await self._clock.sleep(delay_s)
                with contextlib.suppress(OrchgitError):  # the proof of the first answer ages
                    source = await self._ended_source(alloc.id)
            finally:
                await asyncio.to_thread(shutil.rmtree, arriving, ignore_errors=True)
        return f"Cannot move data of the previous allocation: {why}"

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
            names = kept_directories(task.name for task in group.tasks)
            return await _into(answer, root, names)


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
    return work.result()


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _make_empty(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(mode=0o700)
