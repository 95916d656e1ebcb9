"""Answers requests of tasks for the HTTP API, which their agents pass on (the task API).

Unlike the servers' own HTTP, the task API never answers without a token, even while access control
is off: then the token has to be a workload's.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from orchgit.rpc.forwarded_requests import HttpTunnel
from orchgit.services.secrets.identities import verified_claims
from orchgit.state.store import Store
from orchgit.wire import methods
from orchgit.wire.serve import GrpcServer


class TaskApiServicer:
    def __init__(
        self, app: ASGIApp, store: Store, now_ns: Callable[[], int], checks_tokens: bool
    ) -> None:
        """`checks_tokens`: the app itself refuses tokens that it does not know."""
        self._app = app
        self._store = store
        self._now_ns = now_ns
        self._checks_tokens = checks_tokens
        self._tunnel = HttpTunnel(self._answer)

    def register(self, server: GrpcServer) -> None:
        server.add_stream(methods.TASK_API, self._tunnel.serve)

    async def close(self) -> None:
        await self._tunnel.close()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        bearer = headers.get("authorization", "")
        token = headers.get("x-nomad-token", "") or (
            bearer[7:].strip() if bearer[:7].lower() == "bearer " else ""
        )
        app = self._app
        if not token:
            app = PlainTextResponse("Unauthorized", 401)
        elif not self._checks_tokens:
            with self._store.snapshot() as snapshot:
                if verified_claims(snapshot, token, self._now_ns()) is None:
                    app = PlainTextResponse("Forbidden", 403)
        await app(scope, receive, send)
