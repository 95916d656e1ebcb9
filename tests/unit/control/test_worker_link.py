"""The pipe between a worker and its server: both ends in one process, over a real socket pair."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from orchgit.control.leader_client.pipe import LinkedLeader
from orchgit.control.workers.link import WorkerLink
from orchgit.errors import (
    ConflictError,
    NotLeaderError,
    OrchgitError,
    RefusedError,
    UnavailableError,
)
from orchgit.model.evaluation import Evaluation
from orchgit.model.plan import Plan, PlanResult
from orchgit.wire.messages import DequeuedEvaluation
from orchgit.wire.pipe import Pipe
from orchgit.wire.worker_messages import CloseEvaluation, Question
from tests.support.factories import make_evaluation


@dataclass
class Leader:
    """Notes what it is told; hands out when it is let."""

    told: list[tuple[Any, ...]] = field(default_factory=list)
    ready: list[Evaluation] = field(default_factory=list)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    canceled: asyncio.Event = field(default_factory=asyncio.Event)
    error: Exception | None = None
    refused: dict[str, OrchgitError] = field(default_factory=dict)

    async def dequeue(
        self, types: Sequence[str], timeout_s: float, limit: int
    ) -> list[DequeuedEvaluation]:
        self.asked.set()
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.canceled.set()
            raise
        return [DequeuedEvaluation(evaluation=e, token="t", wait_index=3) for e in self.ready]

    async def nack(self, eval_id: str, token: str, *, untouched: bool = False) -> None:
        self.told.append(("untouched" if untouched else "nack", eval_id, token))
        self.asked.set()

    async def close(self, eval_id: str, token: str, evaluations: list[Evaluation]) -> None:
        (error,) = await self.close_all(
            [CloseEvaluation(call=0, eval_id=eval_id, token=token, evaluations=evaluations)]
        )
        if error is not None:
            raise error

    async def close_all(self, outcomes: Sequence[CloseEvaluation]) -> list[OrchgitError | None]:
        if self.error is not None:
            raise self.error
        for each in outcomes:
            self.told.append(("close", each.eval_id, each.token, len(each.evaluations)))
        return [self.refused.get(each.eval_id) for each in outcomes]

    async def submit(
        self, plan: Plan, followups: list[Evaluation], closing: list[Evaluation]
    ) -> PlanResult:
        self.told.append(("plan", plan.eval_id, len(followups), len(closing)))
        return PlanResult(alloc_index=7, rejected_nodes=["n"], refresh_index=9)


@dataclass
class Ends:
    worker: LinkedLeader
    leader: Leader
    gone: asyncio.Event


@contextlib.asynccontextmanager
async def linked() -> AsyncIterator[Ends]:
    server_end, worker_end = socket.socketpair()
    leader, gone = Leader(), asyncio.Event()
    await WorkerLink(leader, gone.set).connect(server_end)
    worker = LinkedLeader()
    await worker.connect(worker_end)
    try:
        yield Ends(worker, leader, gone)
    finally:
        worker.hang_up()
        await asyncio.wait_for(gone.wait(), 5)


def test_every_question_has_its_answer() -> None:
    async def run() -> None:
        async with linked() as ends:
            ends.leader.ready = [make_evaluation(), make_evaluation()]
            ends.leader.may_answer.set()
            taken = await ends.worker.dequeue(["service"], 1, 8)
            assert [(each.token, each.wait_index) for each in taken] == [("t", 3)] * 2
            closing = [make_evaluation()]
            result = await ends.worker.submit(Plan(eval_id="e"), [], closing)
            assert (result.alloc_index, result.rejected_nodes, result.refresh_index) == (
                7,
                ["n"],
                9,
            )
            await ends.worker.close("e", "t", closing)
            await ends.worker.nack("f", "u", untouched=True)
            assert ends.leader.told == [
                ("plan", "e", 0, 1),
                ("close", "e", "t", 1),
                ("untouched", "f", "u"),
            ]

    asyncio.run(run())


def test_what_is_said_in_one_turn_arrives_together() -> None:
    async def run() -> None:
        arrived: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        server_end, worker_end = socket.socketpair()
        server = await Pipe.over(server_end, Question, arrived.set_result, lambda: None)
        worker = LinkedLeader()
        await worker.connect(worker_end)
        large = [make_evaluation(status_description="x" * 100_000)]
        calls = [asyncio.create_task(worker.close(f"e{number}", "t", large)) for number in range(5)]
        together = await asyncio.wait_for(arrived, 5)
        assert [question.eval_id for question in together] == ["e0", "e1", "e2", "e3", "e4"]
        server.close()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(each) for each in ended} == {UnavailableError}, "nobody waits for ever"

    asyncio.run(run())


@pytest.mark.parametrize(
    "error", [ConflictError("cannot: lost"), NotLeaderError("cannot: gone", "host:1")]
)
def test_errors_keep_their_class_and_their_text(error: UnavailableError) -> None:
    async def run() -> None:
        async with linked() as ends:
            ends.leader.error = error
            with pytest.raises(type(error), match=str(error)):
                await ends.worker.close("e", "t", [])

    asyncio.run(run())


def test_of_outcomes_that_come_together_each_has_its_own_answer() -> None:
    async def run() -> None:
        async with linked() as ends:
            ends.leader.refused = {"e1": ConflictError("cannot: not held")}
            closing = (ends.worker.close(f"e{number}", "t", []) for number in range(3))
            ended = await asyncio.gather(*closing, return_exceptions=True)
            assert [type(each) for each in ended] == [type(None), ConflictError, type(None)]
            assert [told[1] for told in ends.leader.told] == ["e0", "e1", "e2"]

    asyncio.run(run())


def test_a_fault_of_the_server_is_an_error_of_that_one_question() -> None:
    async def run() -> None:
        async with linked() as ends:
            ends.leader.error = ZeroDivisionError("secret")
            with pytest.raises(RefusedError) as refused:
                await ends.worker.close("e", "t", [])
            assert "secret" not in str(refused.value)
            await ends.worker.nack("f", "u")

    asyncio.run(run())


def test_evaluations_that_were_on_their_way_to_a_withdrawn_question_go_back() -> None:
    async def run() -> None:
        async with linked() as ends:
            ends.leader.ready = [make_evaluation(id="e0"), make_evaluation(id="e1")]
            asking = asyncio.create_task(ends.worker.dequeue(["service"], 9, 8))
            await asyncio.wait_for(ends.leader.asked.wait(), 5)
            ends.leader.may_answer.set()
            await asyncio.sleep(0)  # the answer is under way
            await asyncio.sleep(0)
            asking.cancel()
            ends.leader.asked.clear()
            await asyncio.wait_for(ends.leader.asked.wait(), 5)
            await asyncio.sleep(0)
            assert ends.leader.told == [("untouched", "e0", "t"), ("untouched", "e1", "t")]

    asyncio.run(run())


def test_a_worker_that_is_gone_waits_for_nothing_any_more() -> None:
    async def run() -> None:
        async with linked() as ends:
            asking = asyncio.create_task(ends.worker.dequeue(["service"], 9, 8))
            await asyncio.wait_for(ends.leader.asked.wait(), 5)
            ends.worker.hang_up()
            await asyncio.wait_for(ends.gone.wait(), 5)
            await asyncio.wait_for(ends.leader.canceled.wait(), 5)
            with pytest.raises(UnavailableError):
                await asking
            with pytest.raises(UnavailableError):
                await ends.worker.nack("e", "t")

    asyncio.run(run())


def test_what_cannot_be_read_ends_the_link() -> None:
    async def run() -> None:
        server_end, other_end = socket.socketpair()
        gone = asyncio.Event()
        await WorkerLink(Leader(), gone.set).connect(server_end)
        other_end.send((3).to_bytes(4, "big") + b"\xc1\xc1\xc1")
        await asyncio.wait_for(gone.wait(), 5)
        assert other_end.recv(1) == b""
        other_end.close()

    asyncio.run(run())
