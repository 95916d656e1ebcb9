"""`/v1/client/allocation/:id/exec`: a command in a task, over a websocket in Nomad's frames."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from typing import TYPE_CHECKING

import msgspec
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from agent.drivers.base import ExecSession
from orchgit.errors import InvalidInputError, NotAllowedError, NotFoundError, OrchgitError
from orchgit.query_values import first_values

if TYPE_CHECKING:
    from agent.agent import Agent

_FAILED, _REFUSED = 1011, 1008
_MAX_REASON = 120


class _Stdin(msgspec.Struct):
    data: str = ""
    close: bool = False


class _Size(msgspec.Struct):
    height: int = 0
    width: int = 0


class _Input(msgspec.Struct):
    stdin: _Stdin | None = None
    tty_size: _Size | None = None


def routes(agent: Agent) -> list[BaseRoute]:
    async def endpoint(socket: WebSocket) -> None:
        await socket.accept()
        try:
            session = await _open(agent, socket)
        except OrchgitError as error:
            code = _REFUSED if isinstance(error, InvalidInputError | NotFoundError) else _FAILED
            await socket.close(code, str(error)[:_MAX_REASON])
            return
        try:
            await _talk(socket, session)
        finally:
            await session.close()

    return [WebSocketRoute("/v1/client/allocation/{alloc_id}/exec", endpoint)]


async def _open(agent: Agent, socket: WebSocket) -> ExecSession:
    if agent.config.disable_remote_exec:
        raise NotAllowedError("Permission denied")
    query = first_values(socket.scope["query_string"])
    runner = agent.allocations.get(socket.path_params["alloc_id"])
    action = query.get("action", "")
    command = [] if action else _command(query.get("command", ""))
    name = query.get("task", "")
    if not name and len(runner.tasks) == 1:
        (name,) = runner.tasks
    if name not in runner.tasks:
        raise NotFoundError(f'task "{name}" is not running: the allocation has no such task')
    handle = runner.tasks[name].handle
    if handle is None:
        raise InvalidInputError(f'task "{name}" is not running.')
    if action:
        command = runner.tasks[name].action(action)
    tty = query.get("tty", "") == "true"
    return await agent.drivers[handle.driver].exec_stream(handle, command, tty)


def _command(text: str) -> list[str]:
    try:
        command = msgspec.json.decode(text.encode(), type=list[str])
    except msgspec.DecodeError as error:
        raise InvalidInputError(f"cannot read the command: {error}") from None
    if not command:
        raise InvalidInputError("command is not present")
    return command


async def _talk(socket: WebSocket, session: ExecSession) -> None:
    """Copy in both directions until the command has ended, or the client is gone."""
    sending = asyncio.create_task(_send_output(socket, session), name="exec output")
    receiving = asyncio.create_task(_take_input(socket, session), name="exec input")
    try:
        await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
        if receiving.done() and not sending.done():
            return  # the client went away: the command is killed by the session's end
        sending.result()
        with contextlib.suppress(RuntimeError):
            await socket.close()
    except OrchgitError as error:
        await socket.close(_FAILED, str(error)[:_MAX_REASON])
    finally:
        for task in (sending, receiving):
            task.cancel()
        await asyncio.gather(sending, receiving, return_exceptions=True)


async def _send_output(socket: WebSocket, session: ExecSession) -> None:
    while True:
        stream, data = await session.read()
        if not data:
            break
        await _send(socket, {stream: {"data": base64.b64encode(data).decode()}})
    for stream in ("stdout", "stderr"):
        await _send(socket, {stream: {"close": True}})
    code = await session.wait()
    await _send(socket, {"exited": True, "result": {"exit_code": code}})


async def _take_input(socket: WebSocket, session: ExecSession) -> None:
    with contextlib.suppress(WebSocketDisconnect):
        while True:
            message = await socket.receive_text()
            frame = msgspec.json.decode(message.encode(), type=_Input)
            if frame.stdin is not None:
                if frame.stdin.data:
                    await session.write(_decoded(frame.stdin.data))
                if frame.stdin.close:
                    await session.close_stdin()
            if frame.tty_size is not None:
                session.resize(frame.tty_size.height, frame.tty_size.width)


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise InvalidInputError(f"cannot read a frame: {error}") from None


async def _send(socket: WebSocket, frame: dict[str, object]) -> None:
    await socket.send_text(msgspec.json.encode(frame).decode())
