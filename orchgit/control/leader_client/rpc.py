"""The leader's queues over the internal RPC, as the worker loop wants them."""

from __future__ import annotations

from collections.abc import Sequence

from orchgit.model.evaluation import Evaluation
from orchgit.model.plan import Plan, PlanResult
from orchgit.wire import methods
from orchgit.wire.channel import LeaderChannel
from orchgit.wire.messages import (
    DequeuedEvaluation,
    DequeueRequest,
    EvalsRequest,
    EvalTokenRequest,
    SubmitPlanRequest,
)

PLAN_TIMEOUT_S = 60.0


class RpcLeader:
    """A LeaderPort over a channel that finds the leader."""

    def __init__(self, channel: LeaderChannel, worker_id: str, session: str = "") -> None:
        self._channel = channel
        self._worker_id = worker_id
        self._session = session

    async def dequeue(
        self, types: Sequence[str], timeout_s: float, limit: int
    ) -> list[DequeuedEvaluation]:
        request = DequeueRequest(
            types=list(types),
            timeout_s=timeout_s,
            worker_id=self._worker_id,
            session=self._session,
            limit=limit,
        )
        reply = await self._channel.call(methods.DEQUEUE, request, timeout_s + 10.0)
        if reply.evaluation is None:
            return []
        first = DequeuedEvaluation(
            evaluation=reply.evaluation, token=reply.token, wait_index=reply.wait_index
        )
        return [first, *reply.more]

    async def nack(self, eval_id: str, token: str, *, untouched: bool = False) -> None:
        request = EvalTokenRequest(eval_id=eval_id, token=token, untouched=untouched)
        await self._channel.call(methods.NACK, request)

    async def close(self, eval_id: str, token: str, evaluations: list[Evaluation]) -> None:
        request = EvalsRequest(evaluations=evaluations, token=token, eval_id=eval_id, ack=True)
        reply = await self._channel.call(methods.STORE_EVALUATIONS, request)
        if not reply.acked:  # a leader of an earlier version
            await self._channel.call(methods.ACK, EvalTokenRequest(eval_id=eval_id, token=token))

    async def submit(
        self, plan: Plan, followups: list[Evaluation], closing: list[Evaluation]
    ) -> PlanResult:
        request = SubmitPlanRequest(plan=plan, followups=followups, closing=closing)
        reply = await self._channel.call(methods.SUBMIT_PLAN, request, PLAN_TIMEOUT_S)
        if not reply.closed and not reply.result.refresh_index:  # as above
            await self.close(plan.eval_id, plan.eval_token, followups + closing)
        return reply.result
