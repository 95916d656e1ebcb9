"""Signs the identities of nodes, and of tasks for the agents that run these tasks."""

from __future__ import annotations

from orchgit.services.secrets.identities import IdentityUseCases
from orchgit.services.secrets.node_identities import NodeIdentityUseCases
from orchgit.wire import methods
from orchgit.wire.messages import SignIdentitiesReply, SignIdentitiesRequest
from orchgit.wire.serve import GrpcServer


class IdentityServicer:
    def __init__(self, identities: IdentityUseCases, of_nodes: NodeIdentityUseCases) -> None:
        self._identities = identities
        self._of_nodes = of_nodes

    def register(self, server: GrpcServer) -> None:
        server.add_unary(methods.SIGN_IDENTITIES, self.sign)

    async def sign(self, request: SignIdentitiesRequest) -> SignIdentitiesReply:
        signed = await self._identities.sign(request.node_id, request.secret_id, request.wanted)
        own = None
        if request.own:
            own = await self._of_nodes.sign_node(request.node_id, request.secret_id)
        return SignIdentitiesReply(signed, own)
