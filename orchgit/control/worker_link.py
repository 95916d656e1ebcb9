"""A server's end of the pipe to one of its workers: each question is put to whoever leads."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

from orchgit.control.leader_port import LeaderPort
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

logger = logging.getLogger(__name__)


class WorkerLink:
    """`on_lost` is called when the worker is gone; what it waited for is canceled before."""

    def __init__(self, leader: LeaderPort, on_lost: Callable[[], None]) -> None:
        self._leader = leader
        self._on_lost = on_lost
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._pipe: Pipe | None = None

    async def connect(self, end: socket.socket) -> None:
        self._pipe = await Pipe.over(end, Question, self._receive, self._lost)

    # -- inside --------------------------------------------------------------------------------

    def _receive(self, questions: list[Question]) -> None:
        for question in questions:
            if isinstance(question, Withdraw):
                self._withdraw(question.call)
                continue
            self._begin(question)

    def _begin(self, question: Question) -> None:
        task = asyncio.create_task(self._answer(question))
        self._calls[question.call] = task
        task.add_done_callback(lambda _: self._calls.pop(question.call, None))

    def _withdraw(self, call: int) -> None:
        task = self._calls.get(call)
        if task is not None:
            task.cancel()

    async def _answer(self, question: Question) -> None:
        try:
            reply = await self._put(question)
        except OrchgitError as exc:
            reply = Failed(call=question.call, error=pack(exc))
        except Exception as exc:  # told to the worker, which gives the evaluation back
            logger.exception("a question of a scheduler worker failed")
            reply = Failed(call=question.call, error=pack(exc))
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
        if isinstance(question, CloseEvaluation):
            await leader.close(question.eval_id, question.token, question.evaluations)
        elif isinstance(question, GiveBack):
            await leader.nack(question.eval_id, question.token, untouched=question.untouched)
        return Done(call=call)

    def _lost(self) -> None:
        self._pipe = None
        for task in self._calls.values():
            task.cancel()
        self._on_lost()
