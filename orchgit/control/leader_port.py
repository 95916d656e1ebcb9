"""The leader's queues over the internal RPC, as the worker loop wants them."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.evaluation import Evaluation
from orchgit.model.plan import Plan, PlanResult
from orchgit.wire import methods
from orchgit.wire.channel import LeaderChannel
from orchgit.wire.messages import (
    DequeueReply,
    DequeueRequest,
    EvalsRequest,
    EvalTokenRequest,
    SubmitPlanRequest,
)

PLAN_TIMEOUT_S = 60.0


class RpcLeader:
    """A LeaderPort over a channel that finds the leader."""

    def __init__(self, channel: LeaderChannel, worker_id: str) -> None:
        self._channel = channel
        self._worker_id = worker_id

    async def dequeue(self, types: Sequence[str], timeout_s: float) -> DequeueReply:
        request = DequeueRequest(types=list(types), timeout_s=timeout_s, worker_id=self._worker_id)
        return await self._channel.call(methods.DEQUEUE, request, timeout_s + 10.0)

    async def ack(self, eval_id: str, token: str) -> None:
        await self._channel.call(methods.ACK, EvalTokenRequest(eval_id=eval_id, token=token))

    async def nack(self, eval_id: str, token: str) -> None:
        await self._channel.call(methods.NACK, EvalTokenRequest(eval_id=eval_id, token=token))

    async def store(self, eval_id: str, token: str, evaluations: list[Evaluation]) -> int:
        request = EvalsRequest(evaluations=evaluations, token=token, eval_id=eval_id)
        return (await self._channel.call(methods.STORE_EVALUATIONS, request)).index

    async def submit(self, plan: Plan) -> PlanResult:
        request = SubmitPlanRequest(plan=plan)
        return (await self._channel.call(methods.SUBMIT_PLAN, request, PLAN_TIMEOUT_S)).result
