"""Jobs registered over HTTP until all their allocations are committed in the durable log.

    python -m tests.benchmarks.schedule [--nodes 5000] [--jobs 10] [--count 1000] [--type service]
        [--rich] [--node-cpu 16000] [--changes 20] [--fail-node]

Nodes are registered in the state and never run anything; everything from the HTTP request to the
applied plan is what a server does. A client in another process registers the jobs and meanwhile
reads over HTTP. Then, if asked, one small
job is changed again and again (`--changes`), and nodes fail that run 200 allocations each, of 200
jobs and of one (`--fail-node`).
"""

# ruff: noqa: E402
from __future__ import annotations

import sys
from pathlib import Path

# Run as a script, the benchmark `jobspec.py` beside this file would hide the package of that name.
sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != Path(__file__).resolve().parent]

import argparse
import asyncio
import gc
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

import httpx
import psutil

from orchgit.collector import settle_collector
from orchgit.control.leader_term import ControlConfig
from orchgit.control.watchers.heartbeat_timers import HeartbeatLimits
from orchgit.model.node import DriverInfo, Node, NodeCpu, NodeDisk, NodeMemory, NodeResources
from orchgit.model.resources import NetworkResource
from orchgit.replication.commands.nodes import RegisterNode, UpdateNodeStatus
from orchgit.server.config import ServerConfig
from orchgit.server.server import Server
from orchgit.services.nodes.computed_class import computed_class
from orchgit.services.nodes.registration import update_node_status
from tests.support.pacing import pause

BUDGET_PER_S = 5000


DOOMED = 200
"""Allocations on a node that fails."""
NEVER_S = 1e9
"""Nodes here send no heartbeats."""
READ_EVERY_S = 0.02


def make_node(number: int, cpu_shares: int) -> Node:
    node = Node(
        id=f"{number:08x}-0000-4000-8000-000000000000",
        secret_id="bench",
        name=f"node-{number}",
        datacenter=f"dc{number % 3 + 1}",
        attributes={"kernel.name": "linux", "cpu.arch": "amd64", "driver.exec": "1"},
        meta={"rack": f"r{number % 50}"},
        drivers={"exec": DriverInfo(detected=True, healthy=True)},
        node_resources=NodeResources(
            cpu=NodeCpu(cpu_shares=cpu_shares, total_cpu_cores=8),
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


async def register_nodes(server: Server, count: int, cpu_shares: int) -> None:
    now_ns = time.time_ns()
    for start in range(0, count, 500):
        numbers = range(start, min(start + 500, count))
        nodes = [make_node(number, cpu_shares) for number in numbers]
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


def last_row(server: Server) -> tuple[int, int]:
    """(how many allocations were ever placed, applied index); costs no look at the rows."""
    with server.state.store.snapshot() as snapshot:
        sql = "SELECT coalesce(max(row), 0) FROM allocations"
        (found,) = snapshot.connection.execute(sql).fetchone()
        return int(found), snapshot.index


@dataclass
class Progress:
    """When how many allocations were there; times are monotonic seconds."""

    times: list[tuple[float, int]] = field(default_factory=list)

    def rate(self, start: float, end: float) -> int:
        """Allocations per second between two shares of the whole (0 to 1)."""
        total = self.times[-1][1] - self.times[0][1]
        lower, upper = (self.times[0][1] + total * share for share in (start, end))
        first = next(point for point in self.times if point[1] >= lower)
        last = next(point for point in self.times if point[1] >= upper)
        return round((last[1] - first[1]) / max(last[0] - first[0], 1e-9))


async def wait_for_allocations(server: Server, wanted: int, timeout_s: float) -> Progress:
    """Returns when they are all there."""
    began = time.monotonic()
    progress = Progress()
    while True:
        found, index = last_row(server)
        progress.times.append((time.monotonic(), found))
        if found >= wanted:
            return progress
        if time.monotonic() - began > timeout_s:
            raise SystemExit(f"cannot measure: {found} of {wanted} allocations after the time-out")
        await server.state.store.watch.wait(["allocations"], index, 1.0)


CLIENTS: set[int] = set()
"""Processes of this benchmark that are no part of the server."""


def server_children(pid: int) -> list[psutil.Process]:
    children = psutil.Process(pid).children(recursive=True)
    return [each for each in children if each.pid not in CLIENTS]


def cpu_s(pid: int) -> tuple[float, float]:
    """CPU seconds of (the server, its workers) up to now."""
    server = psutil.Process(pid)
    own = server.cpu_times()
    workers = [each.cpu_times() for each in server_children(pid)]
    return own.user + own.system, sum(each.user + each.system for each in workers)


async def keep_reading(http: httpx.AsyncClient, times_s: list[float]) -> None:
    """A job's summary, a node, a page of jobs: what a busy server is asked all the time."""
    paths = (
        "/v1/job/warm-up/summary",
        "/v1/node/00000000-0000-4000-8000-000000000000",
        "/v1/jobs?per_page=10",
    )
    while True:
        for path in paths:
            began = time.monotonic()
            (await http.get(path)).raise_for_status()
            times_s.append(time.monotonic() - began)
            await pause(READ_EVERY_S, "the time between reads")


def peak_memory_mb(pid: int) -> float:
    processes = [psutil.Process(pid), *server_children(pid)]
    return sum(each.memory_full_info().pss for each in processes) / 2**20


def at(times_s: list[float], share: float) -> float:
    """The percentile in milliseconds."""
    return round(sorted(times_s)[min(int(len(times_s) * share), len(times_s) - 1)] * 1000, 1)


def client(address: str, arguments: argparse.Namespace, pipe: Connection) -> None:
    """A process of its own: registers the jobs when it is told to, and reads until told to stop;
    then it sends how long each read took."""
    asyncio.run(_client(address, arguments, pipe))


async def _client(address: str, arguments: argparse.Namespace, pipe: Connection) -> None:
    reads_s: list[float] = []
    async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=120) as http:
        (await http.get("/v1/status/leader")).raise_for_status()
        pipe.send("ready")
        await asyncio.to_thread(pipe.recv)
        reader = asyncio.create_task(keep_reading(http, reads_s))
        for number in range(arguments.jobs):
            body = job_body(f"j{number}", arguments.type, arguments.count, arguments.rich)
            (await http.put("/v1/jobs", json=body)).raise_for_status()
        await asyncio.to_thread(pipe.recv)
        reader.cancel()
    pipe.send(reads_s)


async def fill(server: Server, arguments: argparse.Namespace) -> dict[str, object]:
    wanted = arguments.jobs * arguments.count
    before, _ = last_row(server)
    context = multiprocessing.get_context("spawn")
    pipe, its_end = context.Pipe()
    process = context.Process(
        target=client, args=(f"http://{server.http_address}", arguments, its_end)
    )
    process.start()
    CLIENTS.update((process.pid or 0, *resource_trackers()))
    await asyncio.to_thread(pipe.recv)
    server_cpu, worker_cpu = cpu_s(os.getpid())
    began = time.monotonic()
    pipe.send("go")
    progress = await wait_for_allocations(server, before + wanted, arguments.timeout)
    took_s = time.monotonic() - began
    server_after, worker_after = cpu_s(os.getpid())
    pipe.send("stop")
    reads_s = await asyncio.to_thread(pipe.recv)
    await asyncio.to_thread(process.join)
    return {
        "took_s": round(took_s, 3),
        "allocations_per_s": round(wanted / took_s),
        "first_tenth_per_s": progress.rate(0, 0.1),
        "last_tenth_per_s": progress.rate(0.9, 1),
        "server_cpu_s": round(server_after - server_cpu, 2),
        "worker_cpu_s": round(worker_after - worker_cpu, 2),
        "reads": len(reads_s),
        "read_p99_ms": at(reads_s, 0.99) if reads_s else None,
        "memory_mb": round(peak_memory_mb(os.getpid()), 1),
    }


def resource_trackers() -> list[int]:
    """What `multiprocessing` starts beside a process."""
    children = psutil.Process().children()
    return [each.pid for each in children if "resource_tracker" in " ".join(each.cmdline())]


async def change_one_job(
    server: Server, http: httpx.AsyncClient, arguments: argparse.Namespace
) -> dict[str, object]:
    """From the request to all allocations of the new version in the log."""
    times_s = []
    for change in range(arguments.changes + 1):
        body = job_body("changing", arguments.type, 10, arguments.rich)
        tasks = body["Job"]["TaskGroups"][0]["Tasks"]  # type: ignore[index]
        tasks[0]["Env"] = {"CHANGE": str(change)}
        before, _ = last_row(server)
        began = time.monotonic()
        (await http.put("/v1/jobs", json=body)).raise_for_status()
        await wait_for_allocations(server, before + 10, 30)
        times_s.append(time.monotonic() - began)
    del times_s[0]
    return {
        "change_p50_ms": round(statistics.median(times_s) * 1000, 1),
        "change_max_ms": at(times_s, 1),
    }


async def fail_node(
    server: Server, http: httpx.AsyncClient, number: int, jobs: int
) -> dict[str, object]:
    """One node is filled with allocations of so many jobs, and fails: from its status to a new
    allocation for every one of theirs."""
    for job in range(jobs):
        body = job_body(f"doomed-{jobs}-{job}", "service", DOOMED // jobs, rich=False)
        body["Job"]["Affinities"] = [affinity_for(number)]  # type: ignore[index]
        before, _ = last_row(server)
        (await http.put("/v1/jobs", json=body)).raise_for_status()
        await wait_for_allocations(server, before + DOOMED // jobs, 60)
    node_id = make_node(number, 0).id
    with server.state.store.snapshot() as snapshot:
        held = len(snapshot.allocations.of_node(node_id, terminal=False))
    before, _ = last_row(server)
    server_cpu, worker_cpu = cpu_s(os.getpid())
    began = time.monotonic()
    await update_node_status(server.services.context, node_id, "down")
    await wait_for_allocations(server, before + held, 60)
    took_s = time.monotonic() - began
    server_after, worker_after = cpu_s(os.getpid())
    return {
        f"lost_of_{jobs}_jobs": held,
        f"replaced_of_{jobs}_jobs_s": round(took_s, 3),
        f"replaced_of_{jobs}_jobs_cpu_s": [
            round(server_after - server_cpu, 2),
            round(worker_after - worker_cpu, 2),
        ],
    }


def affinity_for(number: int) -> dict[str, object]:
    name = make_node(number, 0).name
    target = "${node.unique.name}"
    return {"LTarget": target, "RTarget": name, "Operand": "=", "Weight": 100}


async def measure(arguments: argparse.Namespace) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as text:
        silent = HeartbeatLimits(min_ttl_s=NEVER_S, failover_s=NEVER_S)
        config = ServerConfig(
            data_dir=Path(text),
            http_bind="127.0.0.1:0",
            rpc_bind="127.0.0.1:0",
            dev_mode=True,
            control=ControlConfig(heartbeats=silent),
        )
        server = Server(config)
        await server.start()
        try:
            return await measure_on(server, arguments)
        finally:
            await server.stop()


async def measure_on(server: Server, arguments: argparse.Namespace) -> dict[str, object]:
    await wait_until_leading(server)
    settle_collector()
    await register_nodes(server, arguments.nodes, arguments.node_cpu)
    async with httpx.AsyncClient(
        base_url=f"http://{server.http_address}", trust_env=False, timeout=120
    ) as http:
        warm_up = job_body("warm-up", arguments.type, 1, rich=False)
        (await http.put("/v1/jobs", json=warm_up)).raise_for_status()
        await wait_for_allocations(server, 1, 60)
        gc.collect()
        line: dict[str, object] = {
            "benchmark": "schedule",
            **{
                name: getattr(arguments, name)
                for name in ("nodes", "jobs", "count", "type", "rich")
            },
            "budget_per_s": BUDGET_PER_S,
            **await fill(server, arguments),
        }
        line["nodes_used"] = committed(server)[1]
        if arguments.changes:
            line |= await change_one_job(server, http, arguments)
        if arguments.fail_node:
            line |= await fail_node(server, http, arguments.nodes - 1, DOOMED)
            line |= await fail_node(server, http, arguments.nodes - 2, 1)
        return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--node-cpu", type=int, default=16000, help="MHz; an allocation takes 20")
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--type", default="service", choices=("service", "batch"))
    parser.add_argument("--rich", action="store_true", help="spread, affinity, constraint, port")
    parser.add_argument("--changes", type=int, default=0, help="how often one job is changed")
    parser.add_argument("--fail-node", action="store_true")
    parser.add_argument("--timeout", type=float, default=300)
    print(json.dumps(asyncio.run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
