"""How fast the scheduler decides: `schedule()` alone, no store, no log, no applier.

`python -m tests.benchmarks.schedule_core --nodes 5000 --jobs 10 --count 1000 [--kind heavy]`.
Kinds: plain (service), batch, ports (one dynamic port each), spread (over datacenters), heavy
(spread, affinity, constraints and a dynamic port). Ends with one JSON line.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from orchgit.ids import RandomIds
from orchgit.model.constraint import Affinity, Constraint, Spread, SpreadTarget
from orchgit.model.evaluation import Evaluation
from orchgit.model.group import EphemeralDisk, TaskGroup
from orchgit.model.job import Job
from orchgit.model.node import (
    DriverInfo,
    Node,
    NodeCpu,
    NodeDisk,
    NodeMemory,
    NodeNetwork,
    NodeNetworkAddress,
    NodeResources,
)
from orchgit.model.resources import NetworkResource, Port, Resources
from orchgit.model.task import Task
from orchgit.scheduler.schedule import schedule
from tests.support.cluster import ListCluster

NOW_NS = 1_800_000_000_000_000_000
DATACENTERS = ("dc1", "dc2", "dc3")


def make_node(number: int) -> Node:
    address = f"10.{number // 65536}.{number // 256 % 256}.{number % 256}"
    network = NodeNetworkAddress(family="ipv4", alias="default", address=address)
    return Node(
        id=f"node-{number:06d}",
        name=f"node-{number:06d}",
        datacenter=DATACENTERS[number % 3],
        computed_class=f"class-{number % 20}",
        attributes={"kernel.name": "linux", "cpu.arch": "amd64", "rack": f"r{number % 50}"},
        meta={"ssd": "1" if number % 2 else "0"},
        drivers={"exec": DriverInfo(detected=True, healthy=True)},
        node_resources=NodeResources(
            cpu=NodeCpu(cpu_shares=16_000 + 1000 * (number % 4), total_cpu_cores=8),
            memory=NodeMemory(memory_mb=32_768),
            disk=NodeDisk(disk_mb=200_000),
            networks=[NetworkResource(mode="host", device="eth0", ip=address)],
            node_networks=[NodeNetwork(mode="host", device="eth0", addresses=[network])],
        ),
        status="ready",
    )


def make_job(number: int, count: int, kind: str) -> Job:
    task = Task(name="server", driver="exec", resources=Resources(cpu=100, memory_mb=128))
    group = TaskGroup(
        name="web", count=count, tasks=[task], ephemeral_disk=EphemeralDisk(size_mb=150)
    )
    if kind in ("ports", "heavy"):
        group.networks = [NetworkResource(mode="host", dynamic_ports=[Port(label="http")])]
    if kind in ("spread", "heavy"):
        group.spreads = [
            Spread(
                attribute="${node.datacenter}",
                weight=100,
                spread_target=[SpreadTarget(value="dc1", percent=50)],
            )
        ]
    if kind == "heavy":
        group.affinities = [Affinity(l_target="${meta.ssd}", r_target="1", weight=50)]
        group.constraints = [
            Constraint(l_target="${attr.kernel.name}", r_target="linux"),
            Constraint(l_target="${attr.cpu.arch}", operand="regexp", r_target="^amd"),
        ]
    return Job(
        id=f"job-{number}",
        type="batch" if kind == "batch" else "service",
        task_groups=[group],
        create_index=1,
        modify_index=1,
        job_modify_index=1,
    )


def run(nodes: int, jobs: int, count: int, kind: str) -> dict[str, object]:
    cluster = ListCluster(NOW_NS)
    for number in range(nodes):
        node = make_node(number)
        cluster.nodes[node.id] = node
    columns = cluster.columns
    ids = RandomIds()
    gc.collect()
    gc.freeze()
    spent_s = cpu_s = 0.0
    placed = 0
    slowest_s = 0.0
    for number in range(jobs):
        job = make_job(number, count, kind)
        cluster.jobs[job.namespace, job.id, 0] = job
        evaluation = Evaluation(
            id=f"eval-{number}", job_id=job.id, type=job.type, triggered_by="job-register"
        )
        begin, begin_cpu = time.perf_counter(), time.process_time()
        outcome = schedule(evaluation, cluster, NOW_NS, number, ids)
        took_s = time.perf_counter() - begin
        spent_s += took_s
        cpu_s += time.process_time() - begin_cpu
        slowest_s = max(slowest_s, took_s)
        for batch in outcome.plan.placements if outcome.plan else ():
            total = batch.resources.total()
            usage = (total.cpu_shares, total.memory_mb, total.disk_mb)
            for row, node_id in enumerate(batch.node_ids):
                columns.add_usage(node_id, usage, batch.ports[row] if batch.ports else ())
            placed += len(batch)
    used = sum(1 for used in columns.cpu_used.tolist() if used)
    return {
        "benchmark": "schedule_core",
        "kind": kind,
        "nodes": nodes,
        "placed": placed,
        "wanted": jobs * count,
        "placements_per_s": round(placed / spent_s),
        "placements_per_cpu_s": round(placed / cpu_s),
        "slowest_evaluation_ms": round(slowest_s * 1000, 1),
        "nodes_used": used,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--kind", default="plain")
    options = parser.parse_args()
    print(json.dumps(run(options.nodes, options.jobs, options.count, options.kind)))


if __name__ == "__main__":
    main()
