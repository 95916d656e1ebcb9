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
from orchgit.model.plan import PlanResult
from orchgit.model.resources import AllocatedPort
from orchgit.replication.commands import (
    ApplyPlan,
    JobUpsert,
    RegisterJob,
    RegisterNode,
    UpsertEvaluations,
)
from orchgit.replication.replicated import ReplicatedState, ReplicationConfig
from tests.support.factories import make_evaluation, make_job, make_node, make_placements


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--ports", action="store_true", help="each allocation has a dynamic port")
    return parser.parse_args()


async def _run(arguments: argparse.Namespace, directory: Path) -> dict[str, object]:
    ids = RandomIds()
    state = ReplicatedState(ReplicationConfig(directory, "server"), SystemClock(), ids)
    await state.start()
    nodes = [make_node(id=ids.new()) for _ in range(arguments.nodes)]
    await asyncio.gather(*(state.propose(RegisterNode(node=node)) for node in nodes))
    plans = []
    for _ in range(arguments.plans):
        job = make_job(count=arguments.rows)
        await state.propose(RegisterJob(upsert=JobUpsert(job=job)))
        evaluation = make_evaluation(job, id=ids.new())
        await state.propose(UpsertEvaluations(evaluations=[evaluation]))
        rows = make_placements(
            job,
            nodes,
            arguments.rows,
            eval_id=evaluation.id,
            alloc_ids=[ids.new() for _ in range(arguments.rows)],
        )
        if arguments.ports:
            rows.ports = [
                [AllocatedPort(label="http", value=20000 + row % 12000, host_ip="10.0.0.1")]
                for row in range(arguments.rows)
            ]
        plans.append(
            ApplyPlan(
                namespace=job.namespace,
                job_id=job.id,
                job_version=0,
                eval_id=evaluation.id,
                result=PlanResult(placements=[rows]),
            )
        )
    syncs, started = state.log_syncs, time.perf_counter()
    await asyncio.gather(*(state.propose(plan) for plan in plans))
    elapsed = time.perf_counter() - started
    count = arguments.plans * arguments.rows
    with state.store.snapshot() as snapshot:
        started = time.perf_counter()
        read = len(snapshot.allocations_by_job("default", plans[0].job_id))
        read_s = time.perf_counter() - started
    result = {
        "rows": count,
        "rows_per_s": round(count / elapsed),
        "read_rows_per_s": round(read / read_s),
        "syncs": state.log_syncs - syncs,
        "max_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "store_mb": round(
            sum(file.stat().st_size for file in (directory / "state").iterdir()) / 1e6, 1
        ),
    }
    await state.stop()
    return result


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(asyncio.run(_run(_parse(), Path(directory)))))


if __name__ == "__main__":
    main()
