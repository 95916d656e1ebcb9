"""`kill -9` of an agent at random moments while allocations come and go (invariant 8).

`run_kills` fails at the first task that was started twice, is forgotten, or outlives its
allocation.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from agent.supervisor.client import SupervisorClient
from orchgit.model.allocation import Allocation
from orchgit.model.job import Job
from orchgit.model.task import Task
from tests.support.agent_rig import mock_job
from tests.support.factories import make_allocation
from tests.support.pacing import pause
from tests.support.polling import until
from tests.support.stub_server import StubServer

_SCRIPT = 'echo $$ >> "$NOMAD_ALLOC_DIR/data/starts"; exec sleep 100000'
_MAX_LIFE_S = 0.4
_MAX_STARTED, _LEAST_RUNNING = 4, 6


@dataclass
class _Churn:
    """Allocations that come and go on one node."""

    path: Path
    server: StubServer
    chance: random.Random
    wanted: dict[str, tuple[Allocation, Job]] = field(default_factory=dict)
    stopped: dict[str, tuple[Allocation, Job]] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    """The ids of all allocations that were ever delivered."""

    def change(self) -> None:
        """Delivers some new allocations, and stops some of those that should run."""
        changed = []
        for _ in range(self.chance.randint(1, _MAX_STARTED)):
            job = mock_job(raw_exec_task(_SCRIPT))
            alloc = make_allocation(job, self.server.nodes[0])
            self.wanted[alloc.id] = (alloc, job)
            self.known.add(alloc.id)
            changed.append((alloc, job))
        spare = max(0, len(self.wanted) - len(changed) - _LEAST_RUNNING)
        older = list(self.wanted)[: -len(changed)]
        for alloc_id in self.chance.sample(older, min(spare, self.chance.randint(0, 5))):
            alloc, job = self.stopped[alloc_id] = self.wanted.pop(alloc_id)
            alloc.desired_status = "stop"
            changed.append((alloc, job))
        self.server.deliver(*changed)

    async def settle(self) -> None:
        """Waits until the node reports what it should, and checks the processes."""
        reports = self.server.reports
        await until(
            lambda: (
                all(_status(self.server, each) == "running" for each in self.wanted)
                and all(_status(self.server, each) == "complete" for each in self.stopped)
            ),
            problem="the agent reports every allocation",
        )
        for alloc_id in self.wanted:
            starts = self.path / "alloc" / alloc_id / "alloc/data/starts"
            pids = await until(partial(_words, starts))
            assert len(pids) == 1, f"allocation {alloc_id} was started {len(pids)} times"
        alive = {each: count for each, count in tasks_by_allocation().items() if each in self.known}
        assert alive == dict.fromkeys(self.wanted, 1)
        self.server.forget(*self.stopped)
        for alloc_id in self.stopped:
            reports.pop(alloc_id, None)
        self.stopped.clear()


async def run_kills(path: Path, kills: int, seed: int = 1) -> dict[str, int]:
    """Kills an agent so many times; returns how many allocations were started, and are left."""
    server, chance = StubServer(), random.Random(seed)
    await server.start()
    churn = _Churn(path, server, chance)
    try:
        for life in range(1, kills + 1):
            server.reports.clear()
            server.nodes.clear()
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.support.agent_process", str(path), server.address)
            )
            try:
                await server.until(lambda: bool(server.nodes))
                churn.change()
                if life == kills or life % 10 == 0:
                    await churn.settle()
                    churn.change()
                await pause(chance.uniform(0.0, _MAX_LIFE_S), "the moment of the kill")
            finally:
                process.kill()
                await process.wait()
    finally:
        await end_tasks_of(path)
        await server.stop()
    return {"kills": kills, "started": len(churn.known), "left": len(churn.wanted)}


def raw_exec_task(script: str) -> Task:
    """A task that runs a shell script, and is killed a second after it was asked to end."""
    config: dict[str, object] = {"command": "/bin/sh", "args": ["-c", script]}
    return Task(name="web", driver="raw_exec", config=config, kill_timeout_ns=10**9)


def tasks_by_allocation() -> Counter[str]:
    """Returns how many processes of this machine name each allocation in their environment."""
    found: Counter[str] = Counter()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it ended, or is somebody else's
        for pair in environment:
            if pair.startswith(b"NOMAD_ALLOC_ID="):
                found[pair.partition(b"=")[2].decode()] += 1
    return found


async def end_tasks_of(data_dir: Path) -> None:
    """Kills the tasks of a node and its supervisor."""
    client = SupervisorClient(data_dir / "client" / "supervisor")
    await client.connect()
    for report in await client.list():
        await client.stop(report.key, 9, 0)
        await client.wait(report.key)
        await client.ack(report.key)
    pid = client.pid
    await client.close()
    os.kill(pid, 9)


def _words(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


def _status(server: StubServer, alloc_id: str) -> str:
    report = server.reports.get(alloc_id)
    return report.client_status if report is not None else ""
