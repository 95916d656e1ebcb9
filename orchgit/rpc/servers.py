"""What scheduler workers ask of the leader."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from orchgit.control.evaluations.broker import Delivery, Holder
from orchgit.model.evaluation import Evaluation
from orchgit.model.plan import Plan, PlanResult
from orchgit.wire import methods
from orchgit.wire.messages import (
    DequeuedEvaluation,
    DequeueReply,
    DequeueRequest,
    Empty,
    EvalsRequest,
    EvalTokenRequest,
    IndexReply,
    SubmitPlanReply,
    SubmitPlanRequest,
)
from orchgit.wire.serve import GrpcServer

MAX_POLL_S = 60.0


class LeaderQueues(Protocol):
    """Every method raises NotLeaderError on a server that does not lead."""

    async def dequeue(
        self,
        types: Collection[str],
        timeout_s: float,
        limit: int = 1,
        holder: Holder = Holder(),  # noqa: B008 - frozen
    ) -> list[Delivery]: ...

    def ack(self, eval_id: str, token: str) -> None: ...

    def nack(self, eval_id: str, token: str, *, untouched: bool = False) -> None: ...

    async def store_evaluations(
        self, eval_id: str, token: str, evaluations: list[Evaluation], *, ack: bool = False
    ) -> int: ...

    async def submit_plan(
        self,
        plan: Plan,
        followups: Sequence[Evaluation] = (),
        closing: Sequence[Evaluation] = (),
    ) -> PlanResult: ...


class WorkerServicer:
    """Translates between messages and the leader's queues; decides nothing."""

    def __init__(self, queues: LeaderQueues) -> None:
        self._queues = queues

    def register(self, server: GrpcServer) -> None:
        server.add_unary(methods.DEQUEUE, self.dequeue)
        server.add_unary(methods.ACK, self.ack)
        server.add_unary(methods.NACK, self.nack)
        server.add_unary(methods.STORE_EVALUATIONS, self.store_evaluations)
        server.add_unary(methods.SUBMIT_PLAN, self.submit_plan)

    async def dequeue(self, request: DequeueRequest) -> DequeueReply:
        timeout_s = min(max(request.timeout_s, 0.0), MAX_POLL_S)
        holder = Holder(request.worker_id, request.session)
        limit = max(request.limit, 1)
        deliveries = await self._queues.dequeue(request.types, timeout_s, limit, holder)
        if not deliveries:
            return DequeueReply()
        first, *more = deliveries
        return DequeueReply(
            evaluation=first.evaluation,
            token=first.token,
            wait_index=first.wait_index,
            more=[
                DequeuedEvaluation(
                    evaluation=each.evaluation, token=each.token, wait_index=each.wait_index
                )
                for each in more
            ],
        )

    async def ack(self, request: EvalTokenRequest) -> Empty:
        self._queues.ack(request.eval_id, request.token)
        return Empty()

    async def nack(self, request: EvalTokenRequest) -> Empty:
        self._queues.nack(request.eval_id, request.token, untouched=request.untouched)
        return Empty()

    async def store_evaluations(self, request: EvalsRequest) -> IndexReply:
        index = await self._queues.store_evaluations(
            request.eval_id, request.token, request.evaluations, ack=request.ack
        )
        return IndexReply(index=index, acked=request.ack)

    async def submit_plan(self, request: SubmitPlanRequest) -> SubmitPlanReply:
        result = await self._queues.submit_plan(request.plan, request.followups, request.closing)
        closed = bool(request.closing) and not result.refresh_index
        return SubmitPlanReply(result=result, closed=closed)
