"""Answers what tasks read, for the agents that run them."""

from __future__ import annotations

from orchgit.services.task_reads import TaskReadUseCases
from orchgit.wire import methods
from orchgit.wire.messages import TaskReadsReply, TaskReadsRequest
from orchgit.wire.serve import GrpcServer


class TaskReadServicer:
    def __init__(self, reads: TaskReadUseCases) -> None:
        self._reads = reads

    def register(self, server: GrpcServer) -> None:
        server.add_unary(methods.TASK_READS, self.read)

    async def read(self, request: TaskReadsRequest) -> TaskReadsReply:
        values = await self._reads.read(
            request.node_id, request.secret_id, request.reads, request.wait_s
        )
        return TaskReadsReply(values)
