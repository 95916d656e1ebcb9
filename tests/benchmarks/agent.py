"""The agent on this machine: latencies, start rates, memory, kills.

    python -m tests.benchmarks.agent [--only start rate memory render kills] [--kills 200]

One line of JSON for each figure:
- start: from a job's registration to its status `running`, for each driver that this machine has;
- rate: 500 raw_exec tasks and 50 containers, from registration until all run;
- memory: the agent's share of memory (PSS) with its supervisor and 100 tasks;
- render: from a variable's change to the changed file, of a template with a `wait` of 1 ms;
- kills: `kill -9` of the agent while allocations come and go.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.benchmarks.report import print_figure, print_times
from tests.support import docker_engine
from tests.support.agent_kill_trials import end_tasks_of, raw_exec_task, run_kills
from tests.support.agent_rig import mock_job
from tests.support.dev_server import DevServer, dev_server
from tests.support.factories import make_allocation
from tests.support.polling import until_blocking
from tests.support.scratch import scratch_directory
from tests.support.stub_server import StubServer

START_BUDGETS_S = {"raw_exec": 0.05, "exec": 0.3, "docker": 1.0}
RENDER_BUDGET_S = 0.1
MEMORY_TASKS = 100
_LONGEST_S = 300.0


def task_of(driver: str) -> dict[str, Any]:
    """A task that runs until it is stopped."""
    config: dict[str, Any] = {"command": "/bin/sleep", "args": ["100000"]}
    if driver == "docker":
        config = {"image": docker_engine.IMAGE, "network_mode": "host", **config}
        config["command"] = "sleep"
    return {
        "Name": "t",
        "Driver": driver,
        "Config": config,
        "Resources": {"CPU": 1, "MemoryMB": 10},
        "LogConfig": {"MaxFiles": 1, "MaxFileSizeMB": 1},
        "KillTimeout": 10**9,
    }


def job_of(name: str, task: dict[str, Any], count: int = 1) -> dict[str, Any]:
    group = {"Name": "g", "Count": count, "Tasks": [task], "EphemeralDisk": {"SizeMB": 10}}
    return {"Job": {"ID": name, "Type": "batch", "TaskGroups": [group]}}


class Client:
    """A person at the HTTP API of a dev server."""

    def __init__(self, server: DevServer) -> None:
        self._http = httpx.Client(base_url=server.address, trust_env=False, timeout=60)

    def register(self, job: dict[str, Any]) -> str:
        self._http.put("/v1/jobs", json=job).raise_for_status()
        return str(job["Job"]["ID"])

    def purge(self, job_id: str) -> None:
        """Returns when the node has ended the job's tasks."""
        self._http.delete(f"/v1/job/{job_id}", params={"purge": "true"}).raise_for_status()
        self._until(
            f"/v1/job/{job_id}/allocations",
            lambda found: all(each["ClientStatus"] not in ("pending", "running") for each in found),
        )

    def until_running(self, job_id: str, count: int) -> None:
        self._until(
            f"/v1/job/{job_id}/summary",
            lambda found: found["Summary"].get("g", {}).get("Running", 0) >= count,
        )

    def put_variable(self, path: str, value: str) -> None:
        body = {"Path": path, "Items": {"value": value}}
        self._http.put(f"/v1/var/{path}", json=body).raise_for_status()

    def allocation_of(self, job_id: str) -> str:
        return str(self._http.get(f"/v1/job/{job_id}/allocations").json()[0]["ID"])

    def _until(self, path: str, accept: Callable[[Any], bool]) -> None:
        index, deadline_s = "0", time.monotonic() + _LONGEST_S
        while time.monotonic() < deadline_s:
            answer = self._http.get(path, params={"index": index, "wait": "5s"})
            if answer.status_code == 404:
                index = "0"
                continue
            if accept(answer.raise_for_status().json()):
                return
            index = answer.headers["X-Nomad-Index"]
        raise RuntimeError(f"{path} is not as expected after {_LONGEST_S:g} s")


@contextmanager
def serving() -> Iterator[tuple[DevServer, Client]]:
    with scratch_directory() as data_dir:
        with dev_server(data_dir, "-no-demo") as server:
            yield server, Client(server)


def drivers() -> list[str]:
    if not docker_engine.installed():
        return ["raw_exec", "exec"]
    os.environ["DOCKER_HOST"] = docker_engine.engine().endpoint
    return ["raw_exec", "exec", "docker"]


def start(options: argparse.Namespace) -> None:
    names = drivers()
    with serving() as (_, client):
        for driver in names:
            took = []
            for number in range(options.jobs + 1):
                began_s = time.perf_counter()
                job_id = client.register(job_of(f"{driver}-{number}", task_of(driver)))
                client.until_running(job_id, 1)
                took.append(time.perf_counter() - began_s)
                client.purge(job_id)
            print_times(f"register to running, {driver}", took[1:], START_BUDGETS_S[driver])


def rate(options: argparse.Namespace) -> None:
    counts = {"raw_exec": 500, "docker": 50}
    names = drivers()
    with serving() as (_, client):
        for driver, count in counts.items():
            if driver not in names:
                continue
            began_s = time.perf_counter()
            client.register(job_of(driver, task_of(driver), count))
            client.until_running(driver, count)
            took_s = time.perf_counter() - began_s
            figures = {"tasks": count, "seconds": round(took_s, 2)}
            print_figure(f"start rate, {driver}", True, **figures, per_s=round(count / took_s, 1))
            client.purge(driver)


def memory(options: argparse.Namespace) -> None:
    """With an agent in a process of its own: in `orchgit dev` the server is part of it."""

    async def measured(path: Path) -> dict[str, float]:
        server = StubServer()
        await server.start()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.agent_process", str(path), server.address)
        )
        try:
            await server.until(lambda: bool(server.nodes))
            idle = _pss_mib(process.pid, path)
            pairs = []
            for _ in range(MEMORY_TASKS):
                job = mock_job(raw_exec_task("exec sleep 100000"))
                pairs.append((make_allocation(job, server.nodes[0]), job))
            server.deliver(*pairs)
            for alloc, _ in pairs:
                await server.until_status(alloc.id, "running")
            return {"idle_pss_mib": idle, "pss_mib": _pss_mib(process.pid, path)}
        finally:
            process.kill()
            await process.wait()
            await end_tasks_of(path)
            await server.stop()

    with scratch_directory() as directory:
        found = asyncio.run(measured(directory))
    print_figure("agent memory", True, tasks=MEMORY_TASKS, **found)


def _pss_mib(pid: int, path: Path) -> float:
    """Returns the share of memory of an agent and its supervisor, without that of tasks."""
    processes = [psutil.Process(pid)]
    for each in psutil.process_iter(["cmdline"]):
        words = " ".join(each.info["cmdline"] or ())
        if each.pid != pid and "supervisor" in words and str(path) in words:
            processes.append(each)
    return round(sum(each.memory_full_info().pss for each in processes) / 2**20, 1)


def render(options: argparse.Namespace) -> None:
    path = "nomad/jobs/rendered"
    text = '{{ with nomadVar "nomad/jobs/rendered" }}{{ .value }}{{ end }}'
    template: dict[str, object] = {
        "EmbeddedTmpl": text,
        "DestPath": "local/value",
        "ChangeMode": "noop",
    }
    # Without it, five seconds pass in which nothing else may change, as in Nomad.
    template["Wait"] = {"Min": 10**6, "Max": 10**6}
    with serving() as (server, client):
        client.put_variable(path, "0")
        job = job_of("rendered", {**task_of("raw_exec"), "Templates": [template]})
        client.until_running(client.register(job), 1)
        alloc_id = client.allocation_of("rendered")
        file = server.data_dir / "alloc" / alloc_id / "t" / "local" / "value"
        took = []
        for number in range(1, options.changes + 1):
            began_s = time.perf_counter()
            client.put_variable(path, str(number))
            until_blocking(partial(_holds, file, str(number)), 10, every_s=0.001)
            took.append(time.perf_counter() - began_s)
        print_times("re-render after a variable's change", took, RENDER_BUDGET_S)


def _holds(file: Path, text: str) -> bool:
    return file.read_text() == text


def kills(options: argparse.Namespace) -> None:
    began_s = time.monotonic()
    with scratch_directory() as directory:
        found = asyncio.run(run_kills(directory, options.kills, options.seed))
    spent_s = round(time.monotonic() - began_s)
    print_figure("agent kill -9 under churn", True, seed=options.seed, seconds=spent_s, **found)


PARTS = {"start": start, "rate": rate, "memory": memory, "render": render, "kills": kills}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for name in options.only:
        PARTS[name](options)


if __name__ == "__main__":
    main()
