"""Concurrent workers and the plan applier, in every order that may happen: nothing over-commits.

Real worker loops, plan queue, applier, columns and store; only the log and the RPC between them
are left out. Where each of them would wait for another, a chosen order decides who goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from orchgit.clock import FakeClock
from orchgit.control.plans.applier import PlanApplier
from orchgit.control.plans.queue import PlanQueue
from orchgit.control.workers.loop import WorkerLoop
from orchgit.control.workers.process import StoreViews
from orchgit.ids import SequentialIds
from orchgit.model.evaluation import EvalStatus, Evaluation
from orchgit.model.group import UpdateStrategy
from orchgit.model.job import Job
from orchgit.model.resources import NetworkResource, Port, Resources
from orchgit.raft_node.proposal import Applied
from orchgit.replication.commands.codec import Command
from orchgit.replication.commands.evaluations import UpsertEvaluations
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.commands.nodes import RegisterNode, UpdateNodeStatus
from orchgit.scheduler.schedule import schedule
from orchgit.state.snapshot import Snapshot
from orchgit.state.store import Store
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
from tests.support.factories import make_evaluation, make_group, make_job, make_task
from tests.support.scheduling import make_network_node
from tests.support.state import apply, check_invariants, open_store
from tests.support.turns import Turns

SERVICE = DequeueRequest(types=["service"])
WORKERS = 3
RUNS = 40
WITH_SHARED_NAMES = (59, 132)
"""Runs in which a plan is committed without the stop of what it replaces."""


class SteppedState:
    """The store behind a log that takes its time: others act before and after each entry."""

    def __init__(self, store: Store, turns: Turns) -> None:
        self.store = store
        self._turns = turns

    async def propose(self, command: Command) -> Applied:
        name = type(command).__name__
        await self._turns.turn(f"{name} enters the log")
        (result,) = apply(self.store, command)
        with self.store.snapshot() as snapshot:
            check_invariants(snapshot)
            _check_names(snapshot)
            index = snapshot.index
        await self._turns.turn(f"{name} is answered")
        return Applied(index, result)


class SteppedLeader:
    """Evaluations in a list, one at a time for each job; plans go to the real queue."""

    def __init__(self, state: SteppedState, plans: PlanQueue, turns: Turns) -> None:
        self._state = state
        self._plans = plans
        self._turns = turns
        self._waiting: list[Evaluation] = []
        self._held: dict[str, Evaluation] = {}
        self.partial = 0

    def enqueue(self, evaluation: Evaluation) -> None:
        self._waiting.append(evaluation)

    # -- what a worker asks --------------------------------------------------------------------

    async def dequeue(self, request: DequeueRequest) -> DequeueReply:
        await self._turns.turn("dequeue")
        taken = []
        for evaluation in list(self._waiting):
            busy = {held.job_id for held in self._held.values()}
            if evaluation.job_id not in busy and len(taken) < request.limit:
                self._waiting.remove(evaluation)
                self._held[evaluation.id] = evaluation
                taken.append(DequeuedEvaluation(evaluation=evaluation, token="t"))
        if taken or self._held or self._waiting:
            return DequeueReply.of(taken)
        return await asyncio.Future[DequeueReply]()

    async def ack(self, request: EvalTokenRequest) -> Empty:
        raise AssertionError("a worker ends an evaluation with its outcome")

    async def nack(self, request: EvalTokenRequest) -> Empty:
        raise AssertionError(f"evaluation {request.eval_id} was given back: nothing here may fail")

    async def store_evaluations(self, request: EvalsRequest) -> IndexReply:
        await self._turns.turn("close")
        await self._state.propose(UpsertEvaluations(evaluations=request.evaluations))
        del self._held[request.eval_id]
        return IndexReply(acked=True)

    async def submit_plan(self, request: SubmitPlanRequest) -> SubmitPlanReply:
        plan, followups, closing = request.plan, request.followups, request.closing
        await self._turns.turn("submit")
        result = await self._plans.submit(plan, followups, closing)
        self.partial += bool(result.rejected_nodes)
        if not result.refresh_index:
            if not result.alloc_index:
                await self._state.propose(UpsertEvaluations(evaluations=followups + closing))
            del self._held[plan.eval_id]
        await self._turns.turn("the plan's answer arrives")
        return SubmitPlanReply(result, closed=not result.refresh_index)

    # -- what the applier asks -----------------------------------------------------------------

    def holds(self, eval_id: str, token: str) -> bool:
        return eval_id in self._held

    def note_index(self, key: tuple[str, str], index: int) -> None:
        """Nothing here waits for an index: every view is the newest."""


def _job(chance: random.Random, number: int, version: int) -> Job:
    task = make_task(
        resources=Resources(cpu=chance.choice((400, 700, 1000)), memory_mb=64),
        env={"VERSION": str(version)},
    )
    group = make_group(
        count=chance.randint(1, 4), tasks=[task], update=UpdateStrategy(max_parallel=10)
    )
    if chance.random() < 0.6:
        static = [Port(label="s", value=8080)] if chance.random() < 0.5 else None
        group.networks = [
            NetworkResource(mode="host", dynamic_ports=[Port(label="d")], reserved_ports=static)
        ]
    return make_job(
        id=f"job-{number}",
        type=chance.choice(("service", "batch")) if version == 0 else "service",
        task_groups=[group],
        priority=chance.choice((30, 50, 70)),
    )


class Scene:
    """A small cluster with more wanted than fits, and everybody who works on it."""

    def __init__(self, store: Store, chance: random.Random) -> None:
        self.store = store
        self.chance = chance
        self.turns = Turns(lambda labels: chance.randrange(len(labels)))
        self.state = SteppedState(store, self.turns)
        self._clock = FakeClock()
        self.plans = PlanQueue(self._clock.monotonic_s)
        self.leader = SteppedLeader(self.state, self.plans, self.turns)
        self.rejected: list[str] = []
        self._ids = SequentialIds()

    def prepare(self) -> None:
        for number in range(3):
            node = make_network_node(number, cpu_shares=2000)
            node.node_resources.max_dynamic_port = node.node_resources.min_dynamic_port + 2
            node.node_max_allocs = self.chance.choice((0, 0, 3))
            apply(self.store, RegisterNode(node=node))
            apply(self.store, UpdateNodeStatus(node_id=node.id, status="ready"))

    def register(self, number: int, version: int) -> None:
        """Stored at once; the evaluation waits for a worker."""
        job = _job(self.chance, number, version)
        evaluation = make_evaluation(job, id=self._ids.new())
        apply(self.store, RegisterJob(upsert=JobUpsert(job), evaluation=evaluation))
        self.leader.enqueue(evaluation)

    async def changes(self) -> None:
        """Jobs are changed, and a node goes and comes, while the workers are at it."""
        for number in range(4):
            await self.turns.turn("a job is changed")
            self.register(number, version=1)
        for status in ("down", "ready"):
            await self.turns.turn(f"a node is {status}")
            apply(self.store, UpdateNodeStatus(node_id="node-000", status=status))
            for number in range(6):
                self._evaluate_again(number)

    def _evaluate_again(self, number: int) -> None:
        with self.store.snapshot() as snapshot:
            job = snapshot.jobs.get("default", f"job-{number}")
        if job is not None:
            evaluation = make_evaluation(job, id=self._ids.new())
            apply(self.store, UpsertEvaluations(evaluations=[evaluation]))
            self.leader.enqueue(evaluation)

    async def play(self) -> None:
        reader = Store.open_reader(self.store.path)
        applier = PlanApplier(
            self.state,  # type: ignore[arg-type] # the part of it that the applier uses
            self.plans,
            self.leader,
            self._clock,
            self._ids,
            self._note_rejected,
        )
        workers = [
            WorkerLoop(self.leader, StoreViews(reader), schedule, self._clock, self._ids, SERVICE)
            for _ in range(WORKERS)
        ]
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(each.run()) for each in workers]
        tasks += [asyncio.create_task(applier.run()), asyncio.create_task(self.changes())]
        try:
            await self.turns.run()
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            reader.close()

    async def _note_rejected(self, node_id: str) -> None:
        self.rejected.append(node_id)


def _check_names(snapshot: Snapshot) -> None:
    """Invariant 12, at every index: a version has each name once."""
    seen = Counter(
        (allocation.name, allocation.job_version)
        for allocation in snapshot.allocations.all()
        if not allocation.is_terminal
    )
    twice = [key for key, count in seen.items() if count > 1]
    assert not twice, f"live twice: {twice}"


def _check_end(scene: Scene) -> None:
    with scene.store.snapshot() as snapshot:
        check_invariants(snapshot)
        open_ones = [e.id for e in snapshot.evaluations.of_status(EvalStatus.PENDING)]
        assert not open_ones, "every evaluation ends"
        for job in snapshot.jobs.all():
            live = [
                allocation
                for allocation in snapshot.allocations.of_job("default", job.id)
                if not allocation.is_terminal
            ]
            assert len(live) <= job.task_groups[0].count, f"{job.id} runs more than it wants"
            names = [allocation.name for allocation in live]
            assert len(names) == len(set(names)), f"{job.id} runs two of one name: {names}"
        for node in snapshot.nodes.all():
            held = snapshot.allocations.of_node(node.id, terminal=False)
            assert node.node_max_allocs == 0 or len(held) <= node.node_max_allocs


def _run(seed: int, directory: Path) -> Scene:
    store = open_store(directory)
    with contextlib.closing(store):
        scene = Scene(store, random.Random(seed))
        scene.prepare()
        for number in range(6):
            scene.register(number, version=0)
        asyncio.run(scene.play())
        _check_end(scene)
    return scene


def test_no_order_of_workers_and_applier_breaks_an_invariant() -> None:
    rejected = overlapped = 0
    for seed in (*range(RUNS), *WITH_SHARED_NAMES):
        with tempfile.TemporaryDirectory() as text:
            scene = _run(seed, Path(text))
        rejected += bool(scene.rejected)
        overlapped += _commits_overlap(scene.turns.history)
    assert rejected > RUNS / 10, "workers must have got into each other's way"
    assert overlapped > RUNS / 10, "plans must have been checked while others were on their way"


def _commits_overlap(history: Sequence[str]) -> bool:
    """Whether a plan entered the log while another one was not answered yet."""
    on_the_way = 0
    for label in history:
        on_the_way += label == "ApplyPlanResult enters the log"
        on_the_way -= label == "ApplyPlanResult is answered"
        if on_the_way > 1:
            return True
    return False


@pytest.mark.parametrize("seed", [3, 11])
def test_same_choices_give_the_same_run(seed: int, tmp_path: Path) -> None:
    first = _run(seed, tmp_path / "first").turns.history
    assert first == _run(seed, tmp_path / "second").turns.history
