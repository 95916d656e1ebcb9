"""Answers requests for the HTTP API that came to an agent which runs no server.

Only while access control is on: else an agent's certificate, and every program that reaches an
agent's HTTP, would be able to do all that the API does.
"""

from __future__ import annotations

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from orchgit.rpc.forwarded_requests import HttpTunnel
from orchgit.wire import methods
from orchgit.wire.relay_paths import is_of_servers
from orchgit.wire.serve import GrpcServer

_OFF = (
    "cannot answer at an agent that runs no server: without access control, agents pass on "
    "nothing; ask a server"
)


class AgentHttpServicer:
    """`checks_tokens`: the app refuses who may not have what is asked for."""

    def __init__(self, app: ASGIApp, checks_tokens: bool) -> None:
        self._app = app
        self._checks_tokens = checks_tokens
        self._tunnel = HttpTunnel(self._answer)

    def register(self, server: GrpcServer) -> None:
        server.add_stream(methods.AGENT_HTTP, self._tunnel.serve)

    async def close(self) -> None:
        await self._tunnel.close()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if not self._checks_tokens:
            app = PlainTextResponse(_OFF, 501)
        elif not is_of_servers(scope["path"]):
            app = PlainTextResponse("", 404)
        await app(scope, receive, send)
