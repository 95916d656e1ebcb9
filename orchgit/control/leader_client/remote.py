"""The leader in another process: over gRPC between servers, over a pipe from a worker's process."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from orchgit.wire import methods
from orchgit.wire.messages import (
    DequeueReply,
    DequeueRequest,
    Empty,
    EvalsRequest,
    EvalTokenRequest,
    IndexReply,
    SubmitPlanReply,
    SubmitPlanRequest,
)
from orchgit.wire.pipe_calls import PipeChannel

Request = TypeVar("Request")
Reply = TypeVar("Reply")

CALL_TIMEOUT_S = 30.0
PLAN_TIMEOUT_S = 60.0
_DEQUEUE_SLACK_S = 10.0


class CallChannel(Protocol):
    """`orchgit.wire.channel.LeaderChannel` or `orchgit.wire.pipe_calls.PipeChannel`."""

    async def call(
        self, method: methods.UnaryMethod[Request, Reply], request: Request, timeout_s: float
    ) -> Reply: ...


class RemoteLeader:
    """A LeaderClient over a channel."""

    def __init__(self, channel: CallChannel) -> None:
        self._channel = channel

    async def dequeue(self, request: DequeueRequest) -> DequeueReply:
        timeout_s = request.timeout_s + _DEQUEUE_SLACK_S
        return await self._channel.call(methods.DEQUEUE, request, timeout_s)

    async def ack(self, request: EvalTokenRequest) -> Empty:
        return await self._channel.call(methods.ACK, request, CALL_TIMEOUT_S)

    async def nack(self, request: EvalTokenRequest) -> Empty:
        return await self._channel.call(methods.NACK, request, CALL_TIMEOUT_S)

    async def store_evaluations(self, request: EvalsRequest) -> IndexReply:
        reply = await self._channel.call(methods.STORE_EVALUATIONS, request, CALL_TIMEOUT_S)
        if request.ack and not reply.acked:  # a leader of an earlier version
            await self.ack(EvalTokenRequest(eval_id=request.eval_id, token=request.token))
        return IndexReply(index=reply.index, acked=request.ack)

    async def submit_plan(self, request: SubmitPlanRequest) -> SubmitPlanReply:
        reply = await self._channel.call(methods.SUBMIT_PLAN, request, PLAN_TIMEOUT_S)
        if reply.closed or reply.result.refresh_index:
            return reply
        plan = request.plan  # of a leader of an earlier version, too
        await self.store_evaluations(
            EvalsRequest(
                evaluations=request.followups + request.closing,
                token=plan.eval_token,
                eval_id=plan.eval_id,
                ack=True,
            )
        )
        return SubmitPlanReply(result=reply.result, closed=True)


def nack_unwanted(channel: PipeChannel, method: methods.UnaryMethod[Any, Any], reply: Any) -> None:
    """For a worker's PipeChannel: evaluations that were on their way to a canceled call go back."""
    if method is methods.DEQUEUE:
        for each in reply.deliveries:
            nack = EvalTokenRequest(eval_id=each.evaluation.id, token=each.token, untouched=True)
            channel.send(methods.NACK, nack)
