"""Renders templates in separate processes, within limits: the agent's loop never runs one.

A process is started when a template needs it and stays for a few seconds, since templates come
together. A process that passes a limit is killed, and its template fails; the next template gets a
new process.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from agent.templates.addresses import addresses_of
from agent.templates.functions import DENIED, Known
from agent.templates.queries import Query, QueryKind
from agent.templates.worker import (
    ABSENT,
    ADDRESS,
    CONTENT,
    FAILED,
    FILE,
    NOTES,
    QUERY,
    READY,
    REFUSED,
    RENDER,
    RENDERED,
    UNKNOWN,
)
from orchgit.child import DEVNULL, PIPE, Child, processor_time_s, start_child
from orchgit.errors import DriverError, InvalidInputError
from orchgit.length_frames import FrameError, frame, receive_frame

_SHORTEST_WAIT_S = 0.01
_MIB = 1 << 20
_MAX_PATH_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class RenderLimits:
    """The limits of one template; an error names the one that was passed. `processes` render at
    once, each at most `uses` templates, and end when idle for `idle_s`.

    `processor_s` is time on a processor, without the start of the process: a machine that stands
    still makes no template wrong.
    `stall_timeout_s` is any time: a process that no longer works is ended after it."""

    processor_s: float = 10.0
    stall_timeout_s: float = 180.0
    memory_bytes: int = 96 * _MIB
    output_bytes: int = 8 * _MIB
    source_bytes: int = 4 * _MIB
    steps: int = 3_000_000
    processes: int = 2
    uses: int = 100
    idle_s: float = 5.0


def _nothing_known(query: Query) -> tuple[Known, Any]:
    return Known.UNKNOWN, None


@dataclass(frozen=True, slots=True)
class RenderRequest:
    """A template and what it may read. `read_file` and `sockaddr` raise InvalidInputError."""

    name: str
    text: str
    env: Mapping[str, str]
    now_ns: int
    read_file: Callable[[str], str]
    ask: Callable[[Query], tuple[Known, Any]] = _nothing_known
    """What is known of a query now, and its value."""
    sockaddr: Callable[[str], str] = addresses_of
    left: str = "{{"
    right: str = "}}"
    err_missing_key: bool = False
    envvars: bool = False
    region: str = "global"
    namespace: str = "default"
    denied: Collection[str] = DENIED
    """Functions that are refused."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """`variables` are those of the text's lines, where the request has `envvars`, or
    `variables_error` says why there are none. `missing` names what the template cannot do without:
    then its text is of no use."""

    text: bytes
    variables: dict[str, str] = field(default_factory=dict)
    variables_error: str = ""
    missing: tuple[str, ...] = ()


class RenderError(InvalidInputError):
    """The template cannot be rendered. `stage` is "parse" or "execute" where the template itself is
    wrong, and "" where it passed a limit."""

    def __init__(self, stage: str, message: str) -> None:
        super().__init__(message)
        self.stage = stage


@dataclass(slots=True)
class _Process:
    child: Child
    uses: int = 0


class TemplateRenderer:
    """One for each agent; lives on its event loop."""

    def __init__(self, limits: RenderLimits | None = None) -> None:
        self.limits = limits or RenderLimits()
        self._turns = asyncio.Semaphore(self.limits.processes)
        self._idle: list[_Process] = []
        self._timer: asyncio.TimerHandle | None = None

    async def render(self, request: RenderRequest) -> Rendered:
        """Raises InvalidInputError for a template that cannot be rendered within the limits, and
        DriverError where no process can be started."""
        limits = self.limits
        if len(request.text) > limits.source_bytes:
            raise _failed(request, f"its text has over {limits.source_bytes} bytes, the limit")
        async with self._turns:
            process = await self._process()
            reusable = False
            try:
                async with asyncio.timeout(limits.stall_timeout_s):
                    if not process.uses:
                        await self._started(process.child)
                    rendered = await self._within_processor_time(process.child, request)
                reusable = True
            except RenderError as error:
                reusable = True
                if error.stage:
                    raise
                raise _failed(request, str(error)) from None
            except TimeoutError as error:
                limit = str(error) or f"{limits.stall_timeout_s:g} s"
                raise _failed(
                    request, f"it takes longer than {limit}, the limit of templates"
                ) from None
            except asyncio.IncompleteReadError:
                code = await process.child.wait()
                raise _failed(
                    request, f"the process that renders it ended with code {code}; make it smaller"
                ) from None
            except ConnectionError as error:
                raise _failed(request, str(error)) from None
            finally:
                self._give_back(process, reusable)
            return rendered

    async def close(self) -> None:
        """End the processes that wait for templates."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._idle:
            child = self._idle.pop().child
            child.kill()
            child.close()
            await child.wait()

    def process_ids(self) -> list[int]:
        """The pids of the processes that wait for templates."""
        return [process.child.pid for process in self._idle]

    # -- processes ------------------------------------------------------------------------------

    async def _process(self) -> _Process:
        while self._idle:
            process = self._idle.pop()
            if process.child.returncode is None:
                return process
        # -S and no more modules than it needs: the task waits while it starts.
        command = [sys.executable, "-S", "-m", "agent.templates.worker"]
        try:
            return _Process(
                await start_child(
                    *command,
                    str(self.limits.memory_bytes),
                    str(round(self.limits.uses * (self.limits.processor_s + 1))),
                    stdin=PIPE,
                    stdout=PIPE,
                    stderr=DEVNULL,
                    cwd="/",
                    env=_environment(),
                    start_new_session=True,
                )
            )
        except OSError as error:
            raise DriverError(
                f"cannot start the process that renders templates: {error}", recoverable=True
            ) from error

    def _give_back(self, process: _Process, reusable: bool) -> None:
        process.uses += 1
        if not reusable or process.uses >= self.limits.uses:
            process.child.kill()
            process.child.close()
            return
        self._idle.append(process)
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self.limits.idle_s, self._end_idle)

    def _end_idle(self) -> None:
        self._timer = None
        while self._idle:
            child = self._idle.pop().child
            child.kill()
            child.close()

    # -- one template ---------------------------------------------------------------------------

    async def _started(self, child: Child) -> None:
        """Waits until a new process has started: no template's time."""
        kind, _ = await self._receive(child)
        if kind != READY:
            raise ConnectionError("the process that renders it sent what is no greeting")

    async def _within_processor_time(self, child: Child, request: RenderRequest) -> Rendered:
        """Raises TimeoutError with the limit when the template took its time of a processor."""
        limit_s, before_s = self.limits.processor_s, processor_time_s(child.pid)
        rendering = asyncio.ensure_future(self._render(child, request))
        try:
            left_s = limit_s
            while left_s > 0:
                await asyncio.wait([rendering], timeout=max(left_s, _SHORTEST_WAIT_S))
                if rendering.done():
                    return rendering.result()
                left_s = limit_s - (processor_time_s(child.pid) - before_s)
            raise TimeoutError(f"{limit_s:g} s of processor time")
        finally:
            rendering.cancel()

    async def _render(self, child: Child, request: RenderRequest) -> Rendered:
        limits = self.limits
        await _send(
            child,
            RENDER,
            json.dumps(
                {
                    "text": request.text,
                    "env": dict(request.env),
                    "now_ns": request.now_ns,
                    "left": request.left,
                    "right": request.right,
                    "err_missing_key": request.err_missing_key,
                    "envvars": request.envvars,
                    "region": request.region,
                    "namespace": request.namespace,
                    "denied": list(request.denied),
                    "max_steps": limits.steps,
                    "max_bytes": limits.output_bytes,
                }
            ).encode(),
        )
        notes: dict[str, Any] = {}
        while True:
            kind, body = await self._receive(child)
            if kind in (FILE, QUERY, ADDRESS):
                await _send(child, *_read(request, kind, body))
            elif kind == NOTES:
                notes = json.loads(body)
            elif kind == RENDERED:
                return Rendered(
                    body,
                    notes.get("variables", {}),
                    notes.get("variables_error", ""),
                    tuple(notes.get("missing", ())),
                )
            elif kind == FAILED:
                failure = json.loads(body) if body else {"message": self._too_much_memory()}
                raise RenderError(failure.get("stage", ""), failure["message"])
            else:
                raise ConnectionError("the process that renders it sent what is no answer")

    async def _receive(self, child: Child) -> tuple[bytes, bytes]:
        assert child.stdout is not None
        longest = max(self.limits.output_bytes, 4 * self.limits.source_bytes)
        try:
            message = await receive_frame(child.stdout, longest + 1)
        except FrameError:
            raise ConnectionError(
                f"it gives over {longest} bytes, the limit of templates"
            ) from None
        kind, body = message[:1], message[1:]
        allowed = self.limits.output_bytes if kind == RENDERED else 4 * self.limits.source_bytes
        if len(body) > allowed:
            raise ConnectionError(f"it gives over {allowed} bytes, the limit of templates")
        return kind, body

    def _too_much_memory(self) -> str:
        return (
            f"it takes more than {self.limits.memory_bytes >> 20} MiB of memory, the limit of "
            "templates"
        )


async def _send(child: Child, kind: bytes, body: bytes) -> None:
    assert child.stdin is not None
    child.stdin.write(frame(kind + body))
    with suppress(ConnectionError):  # its end shows when it is read from
        await child.stdin.drain()


def _read(request: RenderRequest, kind: bytes, body: bytes) -> tuple[bytes, bytes]:
    """The answer to what a template asks for: (kind, body) of a frame."""
    try:
        if len(body) > _MAX_PATH_BYTES:
            raise InvalidInputError("cannot read a file with so long a path")
        if kind == QUERY:
            asked, query_name, namespace, region, data = json.loads(body)
            query = Query(QueryKind(asked), query_name, namespace, region, tuple(data))
            known, value = request.ask(query)
            if known is Known.FOUND:
                return CONTENT, json.dumps(value).encode()
            return (ABSENT if known is Known.ABSENT else UNKNOWN), b""
        text = body.decode("utf-8", "surrogateescape")
        if kind == ADDRESS:
            return CONTENT, request.sockaddr(text).encode()
        return CONTENT, request.read_file(text).encode("utf-8", "surrogateescape")
    except InvalidInputError as error:
        return REFUSED, str(error).encode(errors="replace")


def _failed(request: RenderRequest, why: str) -> RenderError:
    return RenderError("", f'cannot render the template "{request.name}": {why}')


def _environment() -> dict[str, str]:
    """What the same Python needs to start; nothing else of the agent's."""
    given = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
    return {**given, "PYTHONPATH": path, "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
