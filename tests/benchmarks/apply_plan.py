"""How fast committed plans become rows: `python -m tests.benchmarks.apply_plan`.

Ends with one JSON line: allocation rows per second through the log and the state, and memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import tempfile
import time
from pathlib import Path

from orchgit.clock import SystemClock
from orchgit.ids import RandomIds
from orchgit.model.job import Job
from orchgit.model.node import Node
from orchgit.model.plan import PlanResult
from orchgit.model.resources import AllocatedPort
from orchgit.replication.commands.jobs import JobUpsert, RegisterJob
from orchgit.replication.commands.nodes import RegisterNode
from orchgit.replication.commands.plans import ApplyPlan
from orchgit.replication.replicated import ReplicatedState, ReplicationConfig
from tests.support.factories import make_job, make_node, make_placements

TOGETHER = 10
"""Plans that are proposed at once."""


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--ports", action="store_true", help="each allocation has a dynamic port")
    return parser.parse_args()


def _plan(job: Job, nodes: list[Node], arguments: argparse.Namespace, ids: RandomIds) -> ApplyPlan:
    rows = make_placements(
        job,
        nodes,
        arguments.rows,
        eval_id=ids.new(),
        alloc_ids=[ids.new() for _ in range(arguments.rows)],
    )
    if arguments.ports:
        rows.ports = [
            [AllocatedPort(label="http", value=20000 + row % 12000, host_ip="10.0.0.1")]
            for row in range(arguments.rows)
        ]
    return ApplyPlan(
        namespace=job.namespace,
        job_id=job.id,
        job_version=0,
        eval_id=rows.eval_id,
        result=PlanResult(placements=[rows]),
    )


async def _run(arguments: argparse.Namespace, directory: Path) -> dict[str, object]:
    ids = RandomIds()
    state = ReplicatedState(ReplicationConfig(directory, "server"), SystemClock(), ids)
    await state.start()
    nodes = [make_node(id=ids.new()) for _ in range(arguments.nodes)]
    await asyncio.gather(*(state.propose(RegisterNode(node=node)) for node in nodes))
    elapsed, syncs = 0.0, 0
    for first in range(0, arguments.plans, TOGETHER):
        jobs = [make_job() for _ in range(first, min(first + TOGETHER, arguments.plans))]
        registered = [RegisterJob(upsert=JobUpsert(job=job)) for job in jobs]
        await asyncio.gather(*map(state.propose, registered))
        plans = [_plan(job, nodes, arguments, ids) for job in jobs]
        syncs -= state.log_syncs
        started = time.perf_counter()
        await asyncio.gather(*map(state.propose, plans))
        elapsed += time.perf_counter() - started
        syncs += state.log_syncs
    with state.store.snapshot() as snapshot:
        started = time.perf_counter()
        read = len(snapshot.allocations.of_job("default", jobs[0].id))
        read_s = time.perf_counter() - started
    files = [*(directory / "state").iterdir()]
    result = {
        "benchmark": "apply-plan",
        "rows": arguments.plans * arguments.rows,
        "rows_per_s": round(arguments.plans * arguments.rows / elapsed),
        "read_rows_per_s": round(read / read_s),
        "syncs": syncs,
        "max_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "store_mb": round(sum(file.stat().st_size for file in files) / 1e6, 1),
    }
    await state.stop()
    return result


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(asyncio.run(_run(_parse(), Path(directory)))))


if __name__ == "__main__":
    main()
