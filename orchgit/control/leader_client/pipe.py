"""The leader as a worker process sees it: over the pipe to its own server, which knows the way."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Sequence
from typing import Any

from orchgit.errors import OrchgitError, UnavailableError
from orchgit.model.evaluation import Evaluation
from orchgit.model.plan import Plan, PlanResult
from orchgit.wire.error_detail import unpack
from orchgit.wire.messages import DequeuedEvaluation
from orchgit.wire.pipe import Pipe
from orchgit.wire.worker_messages import (
    CloseEvaluation,
    Failed,
    GiveBack,
    HandInPlan,
    Reply,
    TakeEvaluations,
    Taken,
    Withdraw,
    WorkerMessage,
)


class LinkedLeader:
    """A LeaderPort. What is asked within one turn of the event loop leaves together."""

    def __init__(self) -> None:
        self._pipe: Pipe | None = None
        self._numbers = itertools.count(1)
        self._calls: dict[int, asyncio.Future[Any]] = {}

    async def connect(self, end: socket.socket) -> None:
        self._pipe = await Pipe.over(end, Reply, self._receive, self._lost)

    def hang_up(self) -> None:
        if self._pipe is not None:
            self._pipe.close()

    # -- the port ------------------------------------------------------------------------------

    async def dequeue(
        self, types: Sequence[str], timeout_s: float, limit: int
    ) -> list[DequeuedEvaluation]:
        call = next(self._numbers)
        question = TakeEvaluations(call=call, types=list(types), timeout_s=timeout_s, limit=limit)
        try:
            taken = await self._ask(question)
        except asyncio.CancelledError:
            self._send(Withdraw(call=call))
            raise
        return list(taken.evaluations)

    async def nack(self, eval_id: str, token: str, *, untouched: bool = False) -> None:
        call = next(self._numbers)
        await self._ask(GiveBack(call=call, eval_id=eval_id, token=token, untouched=untouched))

    async def close(self, eval_id: str, token: str, evaluations: list[Evaluation]) -> None:
        call = next(self._numbers)
        await self._ask(
            CloseEvaluation(call=call, eval_id=eval_id, token=token, evaluations=evaluations)
        )

    async def submit(
        self, plan: Plan, followups: list[Evaluation], closing: list[Evaluation]
    ) -> PlanResult:
        call = next(self._numbers)
        judged = await self._ask(
            HandInPlan(call=call, plan=plan, followups=followups, closing=closing)
        )
        result: PlanResult = judged.result
        return result

    # -- inside --------------------------------------------------------------------------------

    async def _ask(self, question: WorkerMessage) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls[question.call] = answer
        try:
            self._send(question)
            return await answer
        finally:
            self._calls.pop(question.call, None)

    def _send(self, message: WorkerMessage) -> None:
        if self._pipe is None:
            raise UnavailableError("cannot ask the server: the link to it is down")
        self._pipe.send(message)

    def _receive(self, replies: list[Reply]) -> None:
        for reply in replies:
            answer = self._calls.get(reply.call)
            if answer is None or answer.done():
                self._return_unwanted(reply)
            elif isinstance(reply, Failed):
                answer.set_exception(unpack(reply.error))
            else:
                answer.set_result(reply)

    def _return_unwanted(self, reply: Reply) -> None:
        """Evaluations that were on their way here when the question was withdrawn."""
        for taken in reply.evaluations if isinstance(reply, Taken) else ():
            self._send(
                GiveBack(
                    call=next(self._numbers),
                    eval_id=taken.evaluation.id,
                    token=taken.token,
                    untouched=True,
                )
            )

    def _lost(self) -> None:
        self._pipe = None
        error: OrchgitError = UnavailableError("cannot go on: the link to the server is down")
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(error)
