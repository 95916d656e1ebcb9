"""Claims of agents on CSI volumes."""

from __future__ import annotations

from orchgit.services.services import Services
from orchgit.wire import methods
from orchgit.wire.messages import ClaimVolumeReply, ClaimVolumeRequest
from orchgit.wire.serve import GrpcServer


class CsiServicer:
    def __init__(self, services: Services) -> None:
        self._services = services

    def register(self, server: GrpcServer) -> None:
        server.add_unary(methods.CLAIM_VOLUME, self.claim)

    async def claim(self, request: ClaimVolumeRequest) -> ClaimVolumeReply:
        return await self._services.csi.claim_for_node(request)
