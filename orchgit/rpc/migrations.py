"""Tells agents where the data is that an allocation takes over from another node."""

from __future__ import annotations

from orchgit.services.allocations.migration import find_migration_source
from orchgit.services.context import UseCaseContext
from orchgit.wire import methods
from orchgit.wire.messages import MigrationSourceReply, MigrationSourceRequest
from orchgit.wire.serve import GrpcServer

_MAX_WAIT_S = 60.0


class MigrationServicer:
    def __init__(self, context: UseCaseContext) -> None:
        self._context = context

    def register(self, server: GrpcServer) -> None:
        server.add_unary(methods.MIGRATION_SOURCE, self.find)

    async def find(self, request: MigrationSourceRequest) -> MigrationSourceReply:
        found = await find_migration_source(
            self._context,
            request.node_id,
            request.secret_id,
            request.alloc_id,
            min(request.wait_s, _MAX_WAIT_S),
        )
        return MigrationSourceReply(found.runs, found.gone, found.node_id, found.url, found.proof)
