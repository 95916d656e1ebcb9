"""Jobs registered over HTTP until all their allocations are committed in the durable log.

    python tests/benchmarks/schedule.py [--nodes 5000] [--jobs 10] [--count 1000] [--type service]

Nodes are registered in the state and never run anything; everything from the HTTP request to the
applied plan is what a server does.
"""

# ruff: noqa: E402
from __future__ import annotations

import sys
from pathlib import Path

# Run as a script, the benchmark `jobspec.py` beside this file would hide the package of that name.
sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != Path(__file__).resolve().parent]

import argparse
import asyncio
import json
import os
import tempfile
import time

import httpx
import psutil

from orchgit.model.node import DriverInfo, Node, NodeCpu, NodeDisk, NodeMemory, NodeResources
from orchgit.model.resources import NetworkResource
from orchgit.replication.commands import RegisterNode, UpdateNodeStatus
from orchgit.server.config import ServerConfig
from orchgit.server.server import Server
from orchgit.services.node_class import computed_class

BUDGET_PER_S = 5000


def make_node(number: int) -> Node:
    node = Node(
        id=f"{number:08x}-0000-4000-8000-000000000000",
        secret_id="bench",
        name=f"node-{number}",
        datacenter=f"dc{number % 3 + 1}",
        attributes={"kernel.name": "linux", "cpu.arch": "amd64", "driver.exec": "1"},
        meta={"rack": f"r{number % 50}"},
        drivers={"exec": DriverInfo(detected=True, healthy=True)},
        node_resources=NodeResources(
            cpu=NodeCpu(cpu_shares=16000, total_cpu_cores=8),
            memory=NodeMemory(memory_mb=65536),
            disk=NodeDisk(disk_mb=500_000),
            networks=[NetworkResource(mode="host", device="eth0", ip="127.0.0.1")],
        ),
    )
    node.computed_class = computed_class(node)
    return node


def job_body(name: str, kind: str, count: int, rich: bool) -> dict[str, object]:
    group: dict[str, object] = {
        "Name": "g",
        "Count": count,
        "EphemeralDisk": {"SizeMB": 10},
        "Tasks": [
            {
                "Name": "t",
                "Driver": "exec",
                "Config": {"command": "/bin/true"},
                "Resources": {"CPU": 20, "MemoryMB": 20},
                "LogConfig": {"MaxFiles": 1, "MaxFileSizeMB": 1},
            }
        ],
    }
    if rich:
        group["Networks"] = [{"DynamicPorts": [{"Label": "http"}]}]
        group["Spreads"] = [{"Attribute": "${node.datacenter}", "Weight": 50}]
        group["Affinities"] = [
            {"LTarget": "${meta.rack}", "RTarget": "r7", "Operand": "=", "Weight": 50}
        ]
        group["Constraints"] = [
            {"LTarget": "${attr.kernel.name}", "RTarget": "linux", "Operand": "="}
        ]
    update = {"MaxParallel": 0} if kind == "service" else None
    return {"Job": {"ID": name, "Type": kind, "Update": update, "TaskGroups": [group]}}


async def register_nodes(server: Server, count: int) -> None:
    now_ns = time.time_ns()
    for start in range(0, count, 500):
        numbers = range(start, min(start + 500, count))
        nodes = [make_node(number) for number in numbers]
        await asyncio.gather(
            *(server.state.propose(RegisterNode(now_ns=now_ns, node=node)) for node in nodes)
        )
        await asyncio.gather(
            *(
                server.state.propose(
                    UpdateNodeStatus(now_ns=now_ns, node_id=node.id, status="ready")
                )
                for node in nodes
            )
        )


async def wait_until_leading(server: Server) -> None:
    async for leads in server.state.leadership.subscribe():
        if leads:
            return


def committed(server: Server) -> tuple[int, int, int]:
    """(allocations, nodes used, applied index)."""
    with server.state.store.snapshot() as snapshot:
        row = snapshot.connection.execute(
            "SELECT count(*), count(DISTINCT node_id) FROM allocations"
        ).fetchone()
        return int(row[0]), int(row[1]), snapshot.index


async def wait_for_allocations(server: Server, wanted: int, timeout_s: float) -> float:
    """Seconds until they are all there; the wait costs one small query per change."""
    began = time.monotonic()
    while True:
        found, _, index = committed(server)
        if found >= wanted:
            return time.monotonic() - began
        if time.monotonic() - began > timeout_s:
            raise SystemExit(f"cannot measure: {found} of {wanted} allocations after the time-out")
        await server.state.store.watch.wait(["allocations"], index, 1.0)


def peak_memory_mb(pid: int) -> float:
    processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return sum(each.memory_full_info().pss for each in processes) / 2**20


async def measure(arguments: argparse.Namespace) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as text:
        config = ServerConfig(
            data_dir=Path(text), http_bind="127.0.0.1:0", rpc_bind="127.0.0.1:0", dev_mode=True
        )
        server = Server(config)
        await server.start()
        try:
            await wait_until_leading(server)
            await register_nodes(server, arguments.nodes)
            wanted = arguments.jobs * arguments.count
            async with httpx.AsyncClient(
                base_url=f"http://{server.http_address}", trust_env=False, timeout=120
            ) as http:
                warm_up = job_body("warm-up", arguments.type, 1, rich=False)
                (await http.put("/v1/jobs", json=warm_up)).raise_for_status()
                await wait_for_allocations(server, 1, 60)
                began = time.monotonic()
                for number in range(arguments.jobs):
                    body = job_body(f"j{number}", arguments.type, arguments.count, arguments.rich)
                    (await http.put("/v1/jobs", json=body)).raise_for_status()
                await wait_for_allocations(server, wanted + 1, arguments.timeout)
                took_s = time.monotonic() - began
            _, nodes_used, _ = committed(server)
            return {
                "benchmark": "schedule",
                "nodes": arguments.nodes,
                "jobs": arguments.jobs,
                "count": arguments.count,
                "type": arguments.type,
                "rich": arguments.rich,
                "took_s": round(took_s, 3),
                "allocations_per_s": round(wanted / took_s),
                "budget_per_s": BUDGET_PER_S,
                "nodes_used": nodes_used,
                "memory_mb": round(peak_memory_mb(os.getpid()), 1),
            }
        finally:
            await server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--type", default="service", choices=("service", "batch"))
    parser.add_argument("--rich", action="store_true", help="spread, affinity, constraint, port")
    parser.add_argument("--timeout", type=float, default=300)
    print(json.dumps(asyncio.run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
