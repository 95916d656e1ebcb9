"""What scheduler workers ask of the leader. Light: worker processes import it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

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

Request = TypeVar("Request")
Reply = TypeVar("Reply")


class LeaderClient(Protocol):
    """The leader's scheduling queues.

    Every method raises NotLeaderError when no leader can be asked, and ConflictError when the
    evaluation is not held under the request's token (any more).
    """

    async def dequeue(self, request: DequeueRequest) -> DequeueReply:
        """One evaluation as soon as there is one, and up to `limit` if more are ready then; none
        when the request's time is over."""
        ...

    async def ack(self, request: EvalTokenRequest) -> Empty:
        """End an evaluation."""
        ...

    async def nack(self, request: EvalTokenRequest) -> Empty:
        """Return an evaluation: it is delivered again."""
        ...

    async def store_evaluations(self, request: EvalsRequest) -> IndexReply:
        """Store what was decided about an evaluation, and end it if the request says so."""
        ...

    async def submit_plan(self, request: SubmitPlanRequest) -> SubmitPlanReply:
        """Have a plan checked and committed. A result without a refresh index is final: the
        `closing` evaluations are stored then, and the plan's evaluation is ended."""
        ...


class UnaryServer(Protocol):
    """A gRPC server, or a process's end of a pipe."""

    def add_unary(
        self,
        method: methods.UnaryMethod[Request, Reply],
        handler: Callable[[Request], Awaitable[Reply]],
        /,
    ) -> None: ...


def serve_leader(server: UnaryServer, leader: LeaderClient) -> None:
    """Have `server` answer a LeaderClient's calls with `leader`."""
    server.add_unary(methods.DEQUEUE, leader.dequeue)
    server.add_unary(methods.ACK, leader.ack)
    server.add_unary(methods.NACK, leader.nack)
    server.add_unary(methods.STORE_EVALUATIONS, leader.store_evaluations)
    server.add_unary(methods.SUBMIT_PLAN, leader.submit_plan)
