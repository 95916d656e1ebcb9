"""Tells agents whether a request for their own HTTP is allowed."""

from __future__ import annotations

import hmac
from collections.abc import Callable

from orchgit.errors import NotAllowedError
from orchgit.state.store import Store
from orchgit.wire import methods
from orchgit.wire.messages import AuthorizeReply, AuthorizeRequest
from orchgit.wire.serve import GrpcServer

Authorize = Callable[[AuthorizeRequest], AuthorizeReply]
"""Decides by the same table as the servers' own HTTP."""


class AuthorizationServicer:
    """Answers the agent of a node that shows the node's secret: for anybody else an answer would
    say whether a guessed token is one."""

    def __init__(self, store: Store, authorize: Authorize | None) -> None:
        """`authorize` None: access control is off, and everything is allowed."""
        self._store = store
        self._authorize = authorize

    def register(self, server: GrpcServer) -> None:
        server.add_unary(methods.AUTHORIZE, self.authorize)

    async def authorize(self, request: AuthorizeRequest) -> AuthorizeReply:
        with self._store.snapshot() as snapshot:
            node = snapshot.nodes.get(request.node_id)
        if node is None or not hmac.compare_digest(node.secret_id, request.secret_id):
            raise NotAllowedError(
                f"cannot check tokens for node {request.node_id}: it is unknown, or the secret is "
                "not the one it was registered with"
            )
        return AuthorizeReply() if self._authorize is None else self._authorize(request)
