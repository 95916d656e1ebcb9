"""What a small evaluation costs a scheduler worker: its real loop, pipe and store, in this process.

    python -m tests.benchmarks.small_evaluations --kind nowhere --together 8

Kinds: `nowhere` (a new job for which there is no node), `placed` (a new job of one allocation),
`unchanged` (a job whose allocations do what they should). The leader is a process of its own that
applies at once what it is told, so what is measured is the worker alone: microseconds of CPU for
each evaluation, the median over the rounds and the lowest tenth. Ends with one JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from jobspec.canonicalize import to_job
from orchgit.clock import SystemClock
from orchgit.control.leader_client.protocol import serve_leader
from orchgit.control.leader_client.remote import RemoteLeader, nack_unwanted
from orchgit.control.workers.loop import WorkerLoop
from orchgit.control.workers.process import StoreViews
from orchgit.ids import RandomIds
from orchgit.model.deployment import DeploymentStatusUpdate
from orchgit.model.evaluation import EvalTrigger, Evaluation
from orchgit.model.job import Job
from orchgit.model.new_evaluation import evaluation_of
from orchgit.model.plan import Plan, PlanResult
from orchgit.replication.commands.allocations import AllocClientUpdate, UpdateAllocsFromClient
from orchgit.replication.commands.codec import Command
from orchgit.replication.commands.deployments import UpdateDeploymentStatus
from orchgit.replication.commands.evaluations import UpsertEvaluations
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.commands.nodes import RegisterNode, UpdateNodeStatus
from orchgit.replication.commands.plans import ApplyPlan
from orchgit.scheduler.schedule import schedule
from orchgit.state.store import Store
from orchgit.wait_first import wait_first
from orchgit.wire.messages import (
    DequeuedEvaluation,
    DequeueReply,
    DequeueRequest,
    Empty,
    EvalsRequest,
    IndexReply,
    SubmitPlanReply,
    SubmitPlanRequest,
)
from orchgit.wire.pipe_calls import PipeChannel, PipeServer
from tests.benchmarks.schedule import make_node
from tests.support.state import apply

SELF = "tests.benchmarks.small_evaluations"
WARM_UP_ROUNDS = 20
UNCHANGED_JOBS = 100


class AppliesAtOnce:
    """The leader's side: delivers evaluations of one kind, and applies what comes of them."""

    def __init__(self, store: Store, options: argparse.Namespace) -> None:
        self._store = store
        self._kind: str = options.kind
        self._together: int = options.together
        self._ids = RandomIds()
        self._serial = 0
        self._unchanged: list[Job] = []
        self._calls: asyncio.Queue[tuple[Any, asyncio.Future[Any]]] = asyncio.Queue()
        self._asked: asyncio.Future[DequeueReply] | None = None
        for number in range(0 if options.kind == "nowhere" else options.nodes):
            node = make_node(number, 16_000)
            apply(store, RegisterNode(node=node), UpdateNodeStatus(node_id=node.id, status="ready"))

    async def run(self, end: socket.socket) -> None:
        """Until the worker is gone."""
        lost = asyncio.Event()
        pipe = PipeServer(on_lost=lost.set)
        serve_leader(pipe, self)
        await pipe.connect(end)
        async with wait_first(self._work(), lost.wait()) as (work, _):
            if work.done():
                work.result()

    async def _call(self, request: Any) -> Any:
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls.put_nowait((request, reply))
        return await reply

    dequeue = ack = nack = store_evaluations = submit_plan = _call

    async def _work(self) -> None:
        if self._kind == "unchanged":
            await self._deliver(self._new_jobs(UNCHANGED_JOBS))
            self._report_healthy()
        while True:
            await self._deliver(
                self._look_again() if self._unchanged else self._new_jobs(self._together)
            )

    # -- evaluations ---------------------------------------------------------------------------

    def _new_jobs(self, count: int) -> list[Evaluation]:
        jobs = [self._new_job() for _ in range(count)]
        evaluations = [self._evaluation(job, EvalTrigger.JOB_REGISTER) for job in jobs]
        pairs = zip(jobs, evaluations, strict=True)
        apply(self._store, *(RegisterJob(upsert=JobUpsert(job=j), evaluation=e) for j, e in pairs))
        return evaluations

    def _new_job(self) -> Job:
        self._serial += 1
        resources = {"CPU": 20, "MemoryMB": 16}
        task = {"Name": "main", "Driver": "exec", "Config": {"command": "/bin/true"}}
        group = {"Name": "main", "Tasks": [{**task, "Resources": resources}]}
        group["Count"] = 3 if self._kind == "unchanged" else 1
        kind = "batch" if self._kind == "nowhere" else "service"
        name = f"job-{self._serial}"
        return to_job({"ID": name, "Type": kind, "Datacenters": ["*"], "TaskGroups": [group]})

    def _look_again(self) -> list[Evaluation]:
        first = self._serial
        self._serial += self._together
        jobs = [self._unchanged[at % UNCHANGED_JOBS] for at in range(first, self._serial)]
        evaluations = [self._evaluation(job, EvalTrigger.NODE_UPDATE) for job in jobs]
        apply(self._store, UpsertEvaluations(evaluations=evaluations))
        return evaluations

    def _evaluation(self, job: Job, trigger: str) -> Evaluation:
        return evaluation_of(job, trigger, self._ids, time.time_ns())

    def _report_healthy(self) -> None:
        with self._store.snapshot() as snapshot:
            allocations, deployments = snapshot.allocations.all(), snapshot.deployments.all()
        by_node: dict[str, list[AllocClientUpdate]] = defaultdict(list)
        for held in allocations:
            update = AllocClientUpdate(held.id, "running", deployment_healthy=True)
            by_node[held.node_id].append(update)
        apply(
            self._store,
            *(UpdateAllocsFromClient(node_id=node, updates=of) for node, of in by_node.items()),
            *(
                UpdateDeploymentStatus(update=DeploymentStatusUpdate(each.id, "successful"))
                for each in deployments
            ),
        )
        with self._store.snapshot() as snapshot:
            self._unchanged = snapshot.jobs.all()

    # -- deliveries ----------------------------------------------------------------------------

    async def _deliver(self, evaluations: Sequence[Evaluation]) -> None:
        """Returns when each of them is done and answered."""
        while self._asked is None:
            await self._answer_some()
        index = self._store.watch.applied_index
        deliveries = [DequeuedEvaluation(evaluation=e, wait_index=index) for e in evaluations]
        self._asked.set_result(DequeueReply.of(deliveries))
        self._asked, left = None, len(deliveries)
        while left:
            left -= await self._answer_some()

    async def _answer_some(self) -> int:
        """How many outcomes have come; they are applied together."""
        calls = [await self._calls.get()]
        while not self._calls.empty():
            calls.append(self._calls.get_nowait())
        commands: list[Command] = []
        plans: list[tuple[asyncio.Future[Any], PlanResult]] = []
        outcomes = 0
        for request, reply in calls:
            if isinstance(request, DequeueRequest):
                self._asked = reply
                continue
            outcomes += 1
            if isinstance(request, SubmitPlanRequest):
                result = _result(request.plan)
                commands.append(_commit(request, result))
                plans.append((reply, result))
                continue
            if isinstance(request, EvalsRequest):
                commands.append(UpsertEvaluations(evaluations=request.evaluations))
                reply.set_result(IndexReply(acked=True))
            else:
                reply.set_result(Empty())
        if commands:
            apply(self._store, *commands)
        index = self._store.watch.applied_index
        for reply, result in plans:
            committed = msgspec.structs.replace(result, alloc_index=index)
            reply.set_result(SubmitPlanReply(committed, closed=True))
        return outcomes


def _result(plan: Plan) -> PlanResult:
    return PlanResult(
        stops=plan.stops,
        placements=plan.placements,
        updates=plan.updates,
        deployment=plan.deployment,
        deployment_updates=plan.deployment_updates,
    )


def _commit(request: SubmitPlanRequest, result: PlanResult) -> ApplyPlan:
    plan = request.plan
    return ApplyPlan(
        namespace=plan.namespace,
        job_id=plan.job_id,
        job_version=plan.job_version,
        eval_id=plan.eval_id,
        result=result,
        evaluations=request.followups + request.closing,
    )


class MeasuredLeader(RemoteLeader):
    """Notes the CPU time whenever the worker asks for evaluations."""

    def __init__(self, pipe: PipeChannel, rounds: int) -> None:
        super().__init__(pipe)
        self._rounds = rounds
        self.cpu_s: list[float] = []
        self.done = asyncio.Event()

    async def dequeue(self, request: DequeueRequest) -> DequeueReply:
        self.cpu_s.append(time.thread_time())
        if len(self.cpu_s) > self._rounds:
            self.done.set()
        return await super().dequeue(request)


async def measure(options: argparse.Namespace, path: Path, end: socket.socket) -> list[float]:
    """Microseconds of CPU for each evaluation, by round; the worker is set up as
    `orchgit.control.workers.process` does."""
    pipe = PipeChannel(nack_unwanted)
    leader = MeasuredLeader(pipe, options.rounds + WARM_UP_ROUNDS)
    await pipe.connect(end)
    views = StoreViews(Store.open_reader(path))
    request = DequeueRequest(types=["service", "batch"])
    loop = WorkerLoop(leader, views, schedule, SystemClock(), RandomIds(), request)
    gc.collect()
    gc.freeze()
    work = asyncio.create_task(loop.run())
    await leader.done.wait()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    pipe.close()
    marks = leader.cpu_s[WARM_UP_ROUNDS:]
    return [(then - now) * 1e6 / options.together for now, then in itertools.pairwise(marks)]


def run(options: argparse.Namespace, path: Path) -> dict[str, object]:
    Store.open(path).close()
    here, there = socket.socketpair()
    given = [f"--{name}={getattr(options, name)}" for name in ("kind", "together", "nodes")]
    with subprocess.Popen(
        [sys.executable, "-m", SELF, *given, f"--store={path}", f"--leader={there.fileno()}"],
        pass_fds=[there.fileno()],
    ):
        there.close()
        with here:
            costs_us = asyncio.run(measure(options, path, here))
    return {
        "benchmark": "small-evaluations",
        "kind": options.kind,
        "together": options.together,
        "nodes": options.nodes,
        "cpu_us": round(statistics.median(costs_us)),
        "lowest_tenth_us": round(statistics.quantiles(costs_us, n=10)[0]),
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("nowhere", "placed", "unchanged"), default="nowhere")
    parser.add_argument("--together", type=int, default=8, help="delivered together, up to 32")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--leader", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = parse()
    if options.leader is not None:
        leader = AppliesAtOnce(Store.open(options.store), options)
        asyncio.run(leader.run(socket.socket(fileno=options.leader)))
        return
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(run(options, Path(directory) / "state.db")))


if __name__ == "__main__":
    main()
