"""The task API: the servers' HTTP API on a unix socket among the secrets of a task.

The socket belongs to the task's directory, so whoever sees the task's secrets may connect; what a
request may do is decided by the token that it carries.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

from starlette.types import Receive, Scope, Send

from agent.connection.http_relay import OpenRequest, answer_by_server
from agent.paths import open_directory
from orchgit.errors import UnavailableError
from orchgit.wire.messages import HttpDown, HttpUp

SOCKET = "api.sock"
_MODE = 0o666
"""Who may reach it is decided by the directory that it lies in."""
_BACKLOG = 64
_MAX_AT_ONCE = 100
"""Connections to one socket; more are answered with 503."""
_KEEP_ALIVE_S = 75


async def no_servers(frames: AsyncIterator[HttpUp]) -> AsyncGenerator[HttpDown]:
    raise UnavailableError("cannot answer: this agent has no servers")
    yield


class TaskApi:
    """Serves one socket for each task; sockets are closed with their allocation or the agent."""

    def __init__(self, open_request: OpenRequest = no_servers) -> None:
        self._open_request = open_request
        self._servers: dict[tuple[str, str], asyncio.Server] = {}
        self._config: Any = None

    async def serve(self, alloc_id: str, task_name: str, secrets: Path) -> None:
        """Begins to listen in the task's secrets directory, unless that is done already.

        Raises OSError where the socket cannot be made.
        """
        key = alloc_id, task_name
        if key in self._servers:
            return
        listener = _bind(secrets)
        try:
            self._servers[key] = await self._start(listener)
        except BaseException:
            listener.close()
            raise

    async def end(self, alloc_id: str) -> None:
        """Closes the sockets of the allocation's tasks."""
        for key in [each for each in self._servers if each[0] == alloc_id]:
            self._servers.pop(key).close()

    async def close(self) -> None:
        for server in self._servers.values():
            server.close()
        self._servers.clear()

    async def _start(self, listener: socket.socket) -> asyncio.Server:
        # Simulated nodes and tests of the runners never need it.
        import uvicorn
        from uvicorn.server import ServerState

        if self._config is None:
            self._config = uvicorn.Config(
                self._answer,
                interface="asgi3",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                limit_concurrency=_MAX_AT_ONCE,
                timeout_keep_alive=_KEEP_ALIVE_S,
            )
            self._config.load()
        config, state = self._config, ServerState()

        def protocol() -> asyncio.Protocol:
            made: asyncio.Protocol = config.http_protocol_class(
                config=config, server_state=state, app_state={}
            )
            return made

        loop = asyncio.get_running_loop()
        return await loop.create_unix_server(protocol, sock=listener)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await answer_by_server(self._open_request, scope, receive, send)


def _bind(secrets: Path) -> socket.socket:
    """A listening socket in the directory. A task cannot lead it elsewhere by a link, and the
    directory's path may be longer than the name of a socket."""
    directory_fd = open_directory(secrets, [])
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):  # of an earlier agent
            os.unlink(SOCKET, dir_fd=directory_fd)
        listener.bind(f"/proc/self/fd/{directory_fd}/{SOCKET}")
        os.chmod(SOCKET, _MODE, dir_fd=directory_fd)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    finally:
        os.close(directory_fd)
    return listener
