"""`/v1/client/fs/logs`: a task's output across its rotated files, from either end, followed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from agent.paths import LOGS, SHARED, AllocPaths, open_inside
from agent.serve.frames import CHUNK_BYTES, POLL_S, Frames, Pulse
from agent.serve.replies import flag, number
from agent.tasks.task_state import DEAD, PENDING
from orchgit.clock import Clock
from orchgit.errors import InvalidInputError, NotFoundError
from orchgit.query_values import first_values

if TYPE_CHECKING:
    from agent.agent import Agent


def routes(agent: Agent) -> list[BaseRoute]:
    async def logs(request: Request) -> Response:
        runner = agent.allocations.get(request.path_params["alloc_id"])
        query = first_values(request.scope["query_string"])
        task, stream = query.get("task", ""), query.get("type", "")
        if not task:
            raise InvalidInputError("must provide task name")
        if stream not in ("stdout", "stderr"):
            raise InvalidInputError("must provide log type (stdout/stderr)")
        if task not in runner.tasks:
            raise InvalidInputError(f'unknown task name "{task}"')
        origin = query.get("origin", "start")
        if origin not in ("start", "end"):
            raise InvalidInputError("origin must be start or end")
        task_runner, follow = runner.tasks[task], flag(request, "follow")
        log = LogFiles(runner.context.paths, f"{task}.{stream}")
        is_pending = task_runner.state.state == PENDING and not follow
        if is_pending and not await asyncio.to_thread(log.indexes):
            raise NotFoundError(f'task "{task}" not started yet. No logs available')
        reader = LogReader(
            log,
            plain=flag(request, "plain"),
            ended=lambda: not follow or task_runner.state.state == DEAD,
            clock=agent.clock,
        )
        body = reader.read(number(request, "offset", 0), from_end=origin == "end")
        # Given as a header: a media type of text would get a character set.
        kind = "text/plain" if flag(request, "plain") else "application/json"
        return StreamingResponse(body, headers={"Content-Type": kind})

    return [Route("/v1/client/fs/logs/{alloc_id}", logs)]


class LogFiles:
    """The files of one stream, `<prefix>.<index>`, as they are at each moment."""

    def __init__(self, paths: AllocPaths, prefix: str) -> None:
        self._paths = paths
        self._prefix = prefix + "."

    def indexes(self) -> list[int]:
        """Oldest first."""
        try:
            fd = open_inside(self._paths.root, f"{SHARED}/{LOGS}", os.O_RDONLY | os.O_DIRECTORY)
        except NotFoundError:
            return []
        try:
            names = os.listdir(fd)
        finally:
            os.close(fd)
        start = self._prefix
        tails = [name[len(start) :] for name in names if name.startswith(start)]
        return sorted(int(tail) for tail in tails if tail.isdecimal())

    def name(self, index: int) -> str:
        return f"{SHARED}/{LOGS}/{self._prefix}{index}"

    def open(self, index: int) -> int:
        return open_inside(self._paths.root, self.name(index))

    def size(self, index: int) -> int:
        try:
            fd = self.open(index)
        except NotFoundError:
            return 0
        try:
            return os.fstat(fd).st_size
        finally:
            os.close(fd)


class LogReader:
    """Reads one stream from a position on. `ended` returns whether no more output can come."""

    def __init__(self, log: LogFiles, plain: bool, ended: Callable[[], bool], clock: Clock) -> None:
        self._log = log
        self._plain = plain
        self._ended = ended
        self._clock = clock
        self._pulse = Pulse(clock)

    async def read(self, offset: int, from_end: bool) -> AsyncIterator[bytes]:
        index, position = await asyncio.to_thread(self.locate, offset, from_end)
        while True:
            ended = self._ended()  # asked before reading: what is written until then is read
            if index in await asyncio.to_thread(self._log.indexes):
                frames = Frames(self._log.name(index), self._plain)
                fd = self._log.open(index)
                try:
                    while data := os.pread(fd, CHUNK_BYTES, position):
                        position += len(data)
                        yield frames.data(data, position)
                        self._pulse.spoke()
                finally:
                    os.close(fd)
            indexes = await asyncio.to_thread(self._log.indexes)
            newer = [number for number in indexes if number > index]
            if newer:
                index, position = newer[0], 0
                continue
            if ended:
                return
            if self._pulse.due() and not self._plain:
                yield b"{}"
            await self._clock.sleep(POLL_S)

    def locate(self, offset: int, from_end: bool) -> tuple[int, int]:
        """(index, position) of `offset` bytes after the start, or before the end, of all files.

        No bytes before the end is the beginning of the newest file: `alloc logs -f` of Nomad's
        clients asks so, and wants what the task has written already.
        """
        sizes = [(index, self._log.size(index)) for index in self._log.indexes()]
        if not sizes:
            return 0, 0
        if from_end and offset == 0:
            return sizes[-1][0], 0
        total = sum(size for _, size in sizes)
        wanted = max(0, total - offset) if from_end else min(offset, total)
        for index, size in sizes[:-1]:
            if wanted < size:
                return index, wanted
            wanted -= size
        return sizes[-1][0], wanted
