"""Tells the leader when this server has applied what the leader has."""

from __future__ import annotations

from orchgit.state.store import Store
from orchgit.wire import methods
from orchgit.wire.messages import AppliedRequest, IndexReply
from orchgit.wire.serve import GrpcServer

MAX_WAIT_S = 10.0


class AppliedServicer:
    """Answered by every server, whether or not it leads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def register(self, server: GrpcServer) -> None:
        server.add_unary(methods.APPLIED, self.applied)

    async def applied(self, request: AppliedRequest) -> IndexReply:
        """Replies with the index that is applied here then."""
        timeout_s = min(max(request.timeout_s, 0.0), MAX_WAIT_S)
        await self._store.watch.wait_applied(request.index, timeout_s)
        return IndexReply(index=self._store.watch.applied_index)
