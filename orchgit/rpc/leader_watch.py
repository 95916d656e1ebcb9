"""Tells agents who leads, as soon as that is another server than before."""

from __future__ import annotations

from orchgit.services.cluster.server_directory import ServerDirectory
from orchgit.wire import methods
from orchgit.wire.messages import LeaderReply, LeaderRequest
from orchgit.wire.serve import GrpcServer

MAX_POLL_S = 300.0


class LeaderServicer:
    def __init__(self, directory: ServerDirectory) -> None:
        self._directory = directory

    def register(self, server: GrpcServer) -> None:
        server.add_unary(methods.LEADER, self.leader)

    async def leader(self, request: LeaderRequest) -> LeaderReply:
        timeout_s = min(max(request.timeout_s, 0.0), MAX_POLL_S)
        leader, term = await self._directory.leader_after(request.term, timeout_s)
        return LeaderReply(leader, term, self._directory.rpc_addresses(), self._directory.cluster)
