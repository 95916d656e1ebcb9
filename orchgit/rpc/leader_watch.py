"""Tells agents who leads, as soon as that is another server than before."""

from __future__ import annotations

from typing import Protocol

from orchgit.model.cluster import ClusterName
from orchgit.wire import methods
from orchgit.wire.messages import LeaderReply, LeaderRequest
from orchgit.wire.serve import GrpcServer

MAX_POLL_S = 300.0


class LeaderNews(Protocol):
    """What this server knows of its cluster (`orchgit.services.cluster.server_directory`)."""

    @property
    def cluster(self) -> ClusterName: ...

    def rpc_addresses(self) -> list[str]: ...

    async def leader_after(self, term: int, timeout_s: float) -> tuple[str, int]: ...


class LeaderServicer:
    def __init__(self, news: LeaderNews) -> None:
        self._news = news

    def register(self, server: GrpcServer) -> None:
        server.add_unary(methods.LEADER, self.leader)

    async def leader(self, request: LeaderRequest) -> LeaderReply:
        timeout_s = min(max(request.timeout_s, 0.0), MAX_POLL_S)
        leader, term = await self._news.leader_after(request.term, timeout_s)
        return LeaderReply(leader, term, self._news.rpc_addresses(), self._news.cluster)
