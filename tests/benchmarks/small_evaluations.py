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

import msgspec

from jobspec.canonicalize import to_job
from orchgit.clock import SystemClock
from orchgit.control.evaluations.new import evaluation_of
from orchgit.control.leader_client.pipe import LinkedLeader
from orchgit.control.workers.loop import WorkerLoop
from orchgit.control.workers.process import StoreViews
from orchgit.first_of import first_of
from orchgit.ids import RandomIds
from orchgit.model.deployment import DeploymentStatusUpdate
from orchgit.model.evaluation import EvalTrigger, Evaluation
from orchgit.model.job import Job
from orchgit.model.plan import Plan, PlanResult
from orchgit.replication.commands import (
    AllocClientUpdate,
    ApplyPlan,
    Command,
    JobUpsert,
    RegisterJob,
    RegisterNode,
    UpdateAllocsFromClient,
    UpdateDeploymentStatus,
    UpdateNodeStatus,
    UpsertEvaluations,
)
from orchgit.scheduler.schedule import schedule
from orchgit.state.store import Store
from orchgit.wire.messages import DequeuedEvaluation
from orchgit.wire.pipe import Pipe
from orchgit.wire.worker_messages import (
    CloseEvaluation,
    Done,
    GiveBack,
    HandInPlan,
    Judged,
    Question,
    Reply,
    TakeEvaluations,
    Taken,
)
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
        self._questions: asyncio.Queue[Question] = asyncio.Queue()
        self._asked: TakeEvaluations | None = None
        for number in range(0 if options.kind == "nowhere" else options.nodes):
            node = make_node(number, 16_000)
            apply(store, RegisterNode(node=node), UpdateNodeStatus(node_id=node.id, status="ready"))

    async def run(self, end: socket.socket) -> None:
        """Until the worker is gone."""
        lost = asyncio.Event()
        self._pipe = await Pipe.over(end, Question, self._receive, lost.set)
        async with first_of(self._work(), lost.wait()) as (work, _):
            if work.done():
                work.result()

    def _receive(self, questions: list[Question]) -> None:
        for question in questions:
            self._questions.put_nowait(question)

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
        taken = [DequeuedEvaluation(evaluation=e, wait_index=index) for e in evaluations]
        self._pipe.send(Taken(call=self._asked.call, evaluations=taken))
        self._asked, left = None, len(taken)
        while left:
            left -= await self._answer_some()

    async def _answer_some(self) -> int:
        """How many outcomes have come; they are applied together."""
        questions = [await self._questions.get()]
        while not self._questions.empty():
            questions.append(self._questions.get_nowait())
        commands: list[Command] = []
        replies: list[Reply] = []
        for question in questions:
            if isinstance(question, TakeEvaluations):
                self._asked = question
            elif isinstance(question, CloseEvaluation):
                commands.append(UpsertEvaluations(evaluations=question.evaluations))
                replies.append(Done(call=question.call))
            elif isinstance(question, HandInPlan):
                result = _result(question.plan)
                commands.append(_commit(question, result))
                replies.append(Judged(call=question.call, result=result))
            elif isinstance(question, GiveBack):
                replies.append(Done(call=question.call))
        if commands:
            apply(self._store, *commands)
        for reply in replies:
            if isinstance(reply, Judged):
                index = self._store.watch.applied_index
                reply.result = msgspec.structs.replace(reply.result, alloc_index=index)
            self._pipe.send(reply)
        return len(replies)


def _result(plan: Plan) -> PlanResult:
    return PlanResult(
        stops=plan.stops,
        placements=plan.placements,
        updates=plan.updates,
        deployment=plan.deployment,
        deployment_updates=plan.deployment_updates,
    )


def _commit(question: HandInPlan, result: PlanResult) -> ApplyPlan:
    plan = question.plan
    return ApplyPlan(
        namespace=plan.namespace,
        job_id=plan.job_id,
        job_version=plan.job_version,
        eval_id=plan.eval_id,
        result=result,
        evaluations=question.followups + question.closing,
    )


class MeasuredLeader(LinkedLeader):
    """Notes the CPU time whenever the worker asks for evaluations."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self._rounds = rounds
        self.cpu_s: list[float] = []
        self.done = asyncio.Event()

    async def dequeue(
        self, types: Sequence[str], timeout_s: float, limit: int
    ) -> list[DequeuedEvaluation]:
        self.cpu_s.append(time.thread_time())
        if len(self.cpu_s) > self._rounds:
            self.done.set()
        return await super().dequeue(types, timeout_s, limit)


async def measure(options: argparse.Namespace, path: Path, end: socket.socket) -> list[float]:
    """Microseconds of CPU for each evaluation, by round; the worker is set up as
    `orchgit.control.workers.process` does."""
    leader = MeasuredLeader(options.rounds + WARM_UP_ROUNDS)
    await leader.connect(end)
    views = StoreViews(Store.open_reader(path))
    loop = WorkerLoop(leader, views, schedule, SystemClock(), RandomIds(), ["service", "batch"])
    gc.collect()
    gc.freeze()
    work = asyncio.create_task(loop.run())
    await leader.done.wait()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    leader.hang_up()
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
