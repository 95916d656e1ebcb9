"""A server's end of the pipe to one of its workers: each question is put to whoever leads."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog

from orchgit.control.leader_client.port import NearLeaderPort
from orchgit.errors import OrchgitError
from orchgit.wire.error_detail import pack
from orchgit.wire.pipe import Pipe
from orchgit.wire.worker_messages import (
    CloseEvaluation,
    Done,
    Failed,
    GiveBack,
    HandInPlan,
    Judged,
    Question,
    Reply,
    TakeEvaluations,
    Taken,
    Withdraw,
)

_log = structlog.get_logger(component="scheduler")


class WorkerLink:
    """`on_lost` is called when the worker is gone; what it waited for is canceled before."""

    def __init__(self, leader: NearLeaderPort, on_lost: Callable[[], None]) -> None:
        self._leader = leader
        self._on_lost = on_lost
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._pipe: Pipe | None = None

    async def connect(self, end: socket.socket) -> None:
        self._pipe = await Pipe.over(end, Question, self._receive, self._lost)

    # -- inside --------------------------------------------------------------------------------

    def _receive(self, questions: list[Question]) -> None:
        outcomes = [each for each in questions if isinstance(each, CloseEvaluation)]
        if outcomes:
            self._begin(outcomes[0].call, self._close(outcomes))
        for question in questions:
            if isinstance(question, Withdraw):
                self._withdraw(question.call)
            elif not isinstance(question, CloseEvaluation):
                self._begin(question.call, self._answer(question))

    def _begin(self, call: int, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._calls[call] = task
        task.add_done_callback(lambda _: self._calls.pop(call, None))

    def _withdraw(self, call: int) -> None:
        task = self._calls.get(call)
        if task is not None:
            task.cancel()

    async def _close(self, outcomes: Sequence[CloseEvaluation]) -> None:
        """What the worker decided without a plan: all that came together, each with its answer."""
        errors: Sequence[Exception | None]
        try:
            errors = await self._leader.close_all(outcomes)
        except Exception as exc:  # noqa: BLE001 - told to the worker, which gives all of them back
            errors = [_noted(exc)] * len(outcomes)
        for outcome, error in zip(outcomes, errors, strict=True):
            call = outcome.call
            self._reply(Done(call=call) if error is None else Failed(call=call, error=pack(error)))

    async def _answer(self, question: Question) -> None:
        try:
            reply = await self._put(question)
        except Exception as exc:  # noqa: BLE001 - told to the worker, which gives it back
            reply = Failed(call=question.call, error=pack(_noted(exc)))
        self._reply(reply)

    def _reply(self, reply: Reply) -> None:
        if self._pipe is not None:
            self._pipe.send(reply)

    async def _put(self, question: Question) -> Reply:
        call, leader = question.call, self._leader
        if isinstance(question, TakeEvaluations):
            taken = await leader.dequeue(question.types, question.timeout_s, question.limit)
            return Taken(call=call, evaluations=taken)
        if isinstance(question, HandInPlan):
            result = await leader.submit(question.plan, question.followups, question.closing)
            return Judged(call=call, result=result)
        if isinstance(question, GiveBack):
            await leader.nack(question.eval_id, question.token, untouched=question.untouched)
        return Done(call=call)

    def _lost(self) -> None:
        self._pipe = None
        for task in self._calls.values():
            task.cancel()
        self._on_lost()


def _noted(error: Exception) -> Exception:
    if not isinstance(error, OrchgitError):
        _log.error("a request of a scheduler worker failed", exc_info=error)
    return error
