"""The pipe between a worker and its server: both ends in one process, over a real socket pair."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from orchgit.control.leader_client.protocol import serve_leader
from orchgit.control.leader_client.remote import RemoteLeader, nack_unwanted
from orchgit.errors import (
    ConflictError,
    NotLeaderError,
    OrchgitError,
    RefusedError,
    UnavailableError,
)
from orchgit.model.evaluation import Evaluation
from orchgit.model.plan import Plan, PlanResult
from orchgit.wire import codec
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
from orchgit.wire.pipe import Pipe
from orchgit.wire.pipe_calls import PipeChannel, PipeServer, ToServer
from tests.support.factories import make_evaluation

DEQUEUE = DequeueRequest(types=["service"], timeout_s=9, limit=8)


def closing(eval_id: str, *evaluations: Evaluation) -> EvalsRequest:
    return EvalsRequest(eval_id=eval_id, token="t", evaluations=list(evaluations), ack=True)


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

    async def dequeue(self, request: DequeueRequest) -> DequeueReply:
        self.asked.set()
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.canceled.set()
            raise
        return DequeueReply.of([DequeuedEvaluation(each, "t", 3) for each in self.ready])

    async def ack(self, request: EvalTokenRequest) -> Empty:
        self.told.append(("ack", request.eval_id, request.token))
        return Empty()

    async def nack(self, request: EvalTokenRequest) -> Empty:
        how = "untouched" if request.untouched else "nack"
        self.told.append((how, request.eval_id, request.token))
        self.asked.set()
        return Empty()

    async def store_evaluations(self, request: EvalsRequest) -> IndexReply:
        if self.error is not None:
            raise self.error
        self.told.append(("close", request.eval_id, request.token, len(request.evaluations)))
        if request.eval_id in self.refused:
            raise self.refused[request.eval_id]
        return IndexReply(index=5, acked=request.ack)

    async def submit_plan(self, request: SubmitPlanRequest) -> SubmitPlanReply:
        lengths = len(request.followups), len(request.closing)
        self.told.append(("plan", request.plan.eval_id, *lengths))
        result = PlanResult(alloc_index=7, rejected_nodes=["n"], refresh_index=9)
        return SubmitPlanReply(result)


@dataclass
class Ends:
    worker: RemoteLeader
    pipe: PipeChannel
    leader: Leader
    gone: asyncio.Event


@contextlib.asynccontextmanager
async def linked() -> AsyncIterator[Ends]:
    server_end, worker_end = socket.socketpair()
    leader, gone = Leader(), asyncio.Event()
    server = PipeServer(on_lost=gone.set)
    serve_leader(server, leader)
    await server.connect(server_end)
    pipe = PipeChannel(nack_unwanted)
    await pipe.connect(worker_end)
    try:
        yield Ends(RemoteLeader(pipe), pipe, leader, gone)
    finally:
        pipe.close()
        await asyncio.wait_for(gone.wait(), 60)


def test_every_call_receives_its_own_reply() -> None:
    async def run() -> None:
        async with linked() as ends:
            ends.leader.ready = [make_evaluation(), make_evaluation()]
            ends.leader.may_answer.set()
            taken = (await ends.worker.dequeue(DEQUEUE)).deliveries
            assert [(each.token, each.wait_index) for each in taken] == [("t", 3)] * 2
            request = SubmitPlanRequest(Plan(eval_id="e"), [], [make_evaluation()])
            result = (await ends.worker.submit_plan(request)).result
            assert (result.alloc_index, result.rejected_nodes, result.refresh_index) == (
                7,
                ["n"],
                9,
            )
            reply = await ends.worker.store_evaluations(closing("e", make_evaluation()))
            assert reply == IndexReply(index=5, acked=True)
            await ends.worker.nack(EvalTokenRequest("f", "u", untouched=True))
            await ends.worker.ack(EvalTokenRequest("g", "v"))
            assert ends.leader.told == [
                ("plan", "e", 0, 1),
                ("close", "e", "t", 1),
                ("untouched", "f", "u"),
                ("ack", "g", "v"),
            ]

    asyncio.run(run())


def test_calls_of_one_event_loop_turn_are_sent_as_one_frame() -> None:
    async def run() -> None:
        arrived: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        server_end, worker_end = socket.socketpair()
        server = await Pipe.over(server_end, ToServer, arrived.set_result, lambda: None)
        pipe = PipeChannel()
        await pipe.connect(worker_end)
        worker = RemoteLeader(pipe)
        large = make_evaluation(status_description="x" * 100_000)
        calls = [
            asyncio.create_task(worker.store_evaluations(closing(f"e{number}", large)))
            for number in range(5)
        ]
        together = await asyncio.wait_for(arrived, 60)
        requests = [codec.decode(EvalsRequest, message.request) for message in together]
        assert [request.eval_id for request in requests] == ["e0", "e1", "e2", "e3", "e4"]
        server.close()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(each) for each in ended} == {UnavailableError}, "nobody waits for ever"

    asyncio.run(run())


@pytest.mark.parametrize(
    "error", [ConflictError("cannot: lost"), NotLeaderError("cannot: gone", "host:1")]
)
def test_error_of_the_leader_keeps_its_class_and_text(error: UnavailableError) -> None:
    async def run() -> None:
        async with linked() as ends:
            ends.leader.error = error
            with pytest.raises(type(error), match=str(error)):
                await ends.worker.store_evaluations(closing("e"))

    asyncio.run(run())


def test_refusal_of_one_call_leaves_other_calls_alone() -> None:
    async def run() -> None:
        async with linked() as ends:
            ends.leader.refused = {"e1": ConflictError("cannot: not held")}
            calls = (ends.worker.store_evaluations(closing(f"e{number}")) for number in range(3))
            ended = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(each) for each in ended] == [IndexReply, ConflictError, IndexReply]
            assert [told[1] for told in ends.leader.told] == ["e0", "e1", "e2"]

    asyncio.run(run())


def test_fault_of_the_server_fails_that_call_alone() -> None:
    async def run() -> None:
        async with linked() as ends:
            ends.leader.error = ZeroDivisionError("secret")
            with pytest.raises(RefusedError) as refused:
                await ends.worker.store_evaluations(closing("e"))
            assert "secret" not in str(refused.value)
            await ends.worker.nack(EvalTokenRequest("f", "u"))

    asyncio.run(run())


def test_evaluations_sent_to_a_canceled_dequeue_are_nacked() -> None:
    async def run() -> None:
        async with linked() as ends:
            ends.leader.ready = [make_evaluation(id="e0"), make_evaluation(id="e1")]
            asking = asyncio.create_task(ends.worker.dequeue(DEQUEUE))
            await asyncio.wait_for(ends.leader.asked.wait(), 60)
            ends.leader.may_answer.set()
            await asyncio.sleep(0)  # the answer is under way
            await asyncio.sleep(0)
            asking.cancel()
            ends.leader.asked.clear()
            await asyncio.wait_for(ends.leader.asked.wait(), 60)
            await asyncio.sleep(0)
            assert ends.leader.told == [("untouched", "e0", "t"), ("untouched", "e1", "t")]

    asyncio.run(run())


def test_calls_end_when_the_worker_closes_the_pipe() -> None:
    async def run() -> None:
        async with linked() as ends:
            asking = asyncio.create_task(ends.worker.dequeue(DEQUEUE))
            await asyncio.wait_for(ends.leader.asked.wait(), 60)
            ends.pipe.close()
            await asyncio.wait_for(ends.gone.wait(), 60)
            await asyncio.wait_for(ends.leader.canceled.wait(), 60)
            with pytest.raises(UnavailableError):
                await asking
            with pytest.raises(UnavailableError):
                await ends.worker.nack(EvalTokenRequest("e", "t"))

    asyncio.run(run())


def test_unreadable_frame_closes_the_pipe() -> None:
    async def run() -> None:
        server_end, other_end = socket.socketpair()
        gone = asyncio.Event()
        await PipeServer(on_lost=gone.set).connect(server_end)
        other_end.send((3).to_bytes(4, "big") + b"\xc1\xc1\xc1")
        await asyncio.wait_for(gone.wait(), 60)
        assert other_end.recv(1) == b""
        other_end.close()

    asyncio.run(run())


def test_call_canceled_before_the_server_began_leaves_no_state() -> None:
    async def run() -> None:
        async with linked() as ends:
            asking = asyncio.create_task(ends.worker.dequeue(DEQUEUE))
            await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])
            await ends.worker.nack(EvalTokenRequest("e", "t"))
            assert not ends.leader.canceled.is_set()
            assert ends.leader.told == [("nack", "e", "t")]

    asyncio.run(run())
