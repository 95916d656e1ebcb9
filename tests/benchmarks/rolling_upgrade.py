"""Three servers and two agents of an earlier version are upgraded one by one, while clients write.

    python -m tests.benchmarks.rolling_upgrade CHECKOUT [--seconds 5] [--directory DIR]

CHECKOUT is a source tree of the earlier version with its own `.venv`. One JSON line for each step:
how the cluster is mixed, and how many writes, registrations and pushes were acknowledged in it.
After each step all that must hold is checked: histories, what was acknowledged is on every server,
equal tables, invariants. One follower goes back to the earlier version before all are upgraded, and
one agent is upgraded before the servers are: the addresses that its driver gives to a task are in
the catalog once the last server is upgraded. Exit code 1 when something is wrong; the directory
with all logs stays then.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from orchgit.cli.commands.dev import end_tasks
from tests.support.cluster_checks import check, check_started_once
from tests.support.history import History
from tests.support.loopback import Loopback
from tests.support.pacing import pause
from tests.support.polling import until
from tests.support.pushing import Pusher
from tests.support.real_cluster import HostProcess, RealCluster
from tests.support.workload import at_work

_DRIVER_IP = "172.31.5.9"
_BAD = ("its handler failed", "Traceback", "cannot apply", "does not know")


class RollingUpgrade:
    def __init__(self, cluster: RealCluster, checkout: Path, directory: Path, seconds: float):
        self._cluster = cluster
        self._checkout = checkout
        self._seconds = seconds
        self._marks = directory / "marks"
        self._seed = 0
        self._pushes = History()
        self._pusher = Pusher(cluster, Loopback(), directory / "git", self._pushes)

    async def run(self) -> None:
        cluster = self._cluster
        everyone = [*cluster.servers.values(), *cluster.agents.values()]
        for one in [*cluster.servers.values(), cluster.agents["a1"]]:
            one.checkout = self._checkout
        await cluster.start()
        await self._pusher.prepare()
        await self._register(_addressed_job())
        await self._step("old")

        leader = await cluster.leader()
        first, second = cluster.followers(leader)
        await self._replace(first, None)
        await self._step("one follower new")
        await self._replace(first, self._checkout)
        await self._step("that follower old again")
        await self._replace(first, None)
        await self._replace(second, None)
        await self._step("both followers new")
        await self._transfer(leader, first)
        await self._step("a new server leads")
        assert await self._addresses() == [], "a server of the earlier version lacks it"
        await self._replace(leader, None)
        await until(self._addressed, 60.0, "the address that the driver gave is not in the catalog")
        await self._step("new")
        agent = cluster.agents["a1"]
        await self._replace(agent, None)
        await until(
            lambda: "connected to a server" in agent.log.read_text().rpartition("Stopped.")[2],
            60.0,
            "the upgraded agent finds no server",
        )
        await cluster.nodes_ready()
        await self._step("the last agent too")
        await check_started_once(cluster, self._marks)
        problems = [line for one in everyone for line in _bad_lines(one)]
        assert not problems, "\n".join(problems)

    async def _step(self, name: str) -> None:
        """Clients write for a while; then all that must hold is checked."""
        before = len(self._pushes.commits)
        async with self._at_work() as history:
            pushing = asyncio.create_task(self._pusher.run())
            await pause(self._seconds, "clients write in this mixture of versions")
            pushing.cancel()
            await asyncio.gather(pushing, return_exceptions=True)
        figures = {
            "writes": history.writes,
            "jobs": len(history.jobs),
            "commits": len(self._pushes.commits) - before,
            "unknown": history.failures,
        }
        print(json.dumps({"benchmark": "rolling_upgrade", "step": name, **figures}), flush=True)
        assert min(figures["writes"], figures["jobs"], figures["commits"]) > 0, "refused"
        await check(self._cluster, history)
        await self._pusher.check(list(self._cluster.servers.values()))

    def _at_work(self) -> AbstractAsyncContextManager[History]:
        self._seed += 1
        place = f"work-{self._seed}"
        return at_work(self._cluster, self._seed, marks=str(self._marks), place=place)

    async def _replace(self, process: HostProcess, checkout: Path | None) -> None:
        """Clients write while the program is another one from now on."""
        async with self._at_work() as history:
            assert await process.stop(60.0) == 0, f"see {process.log}"
            process.checkout = checkout
            await process.start()
            if process.host in self._cluster.servers:
                await process.answers()
                await self._healthy()
        await check(self._cluster, history)

    async def _healthy(self) -> None:
        """As the runbook waits."""

        async def healthy() -> bool:
            leader = await self._cluster.leader()
            answer = await leader.ask("GET", "/v1/operator/autopilot/health")
            return answer.status == 200 and bool(answer.json()["Healthy"])

        await until(healthy, 120.0, "autopilot health is not good", retried=(OSError, TimeoutError))

    async def _transfer(self, leader: HostProcess, target: HostProcess) -> None:
        host, port = (
            self._cluster.place.address(target.host),
            self._cluster.place.ports(target.host),
        )
        path = f"/v1/operator/raft/transfer-leadership?address={host}:{port.raft}"
        answer = await leader.ask("PUT", path)
        assert answer.status == 200, answer.text

        async def leads() -> bool:
            return await self._cluster.leader() is target

        await until(leads, 60.0, f"{target.host} does not lead")

    async def _register(self, job: bytes) -> None:
        answer = await (await self._cluster.leader()).ask("PUT", "/v1/jobs", job)
        assert answer.status == 200, answer.text

        async def runs() -> bool:
            leader = await self._cluster.leader()
            found = await leader.get("/v1/job/addressed/allocations")
            return [each["ClientStatus"] for each in found] == ["running"]

        await until(runs, 60.0, "the job with a service does not run")

    async def _addresses(self) -> list[str]:
        answer: Any = await (await self._cluster.leader()).ask("GET", "/v1/service/addressed")
        return [] if answer.status == 404 else [each["Address"] for each in answer.json()]

    async def _addressed(self) -> bool:
        return await self._addresses() == [_DRIVER_IP]


def _addressed_job() -> bytes:
    """A task to which its driver gives an address; on the agent that is new from the beginning."""
    service = {
        "Name": "addressed",
        "Provider": "nomad",
        "AddressMode": "driver",
        "PortLabel": "9000",
    }
    task = {
        "Name": "main",
        "Driver": "mock_driver",
        "Config": {"run_for": "24h", "driver_ip": _DRIVER_IP},
        "Services": [service],
        "Resources": {"CPU": 1, "MemoryMB": 10},
    }
    network = {"DynamicPorts": [{"Label": "http"}, {"Label": "admin", "To": 80}]}
    group = {"Name": "main", "Count": 1, "Tasks": [task], "Networks": [network]}
    where = {"LTarget": "${node.unique.name}", "RTarget": "a2", "Operand": "="}
    job = {"ID": "addressed", "Type": "service", "TaskGroups": [group], "Constraints": [where]}
    return json.dumps({"Job": {**job, "Name": "addressed", "Datacenters": ["*"]}}).encode()


def _bad_lines(process: HostProcess) -> list[str]:
    lines = process.log.read_text(errors="replace").splitlines()
    return [f"{process.host}: {line}" for line in lines if any(each in line for each in _BAD)]


async def _run(checkout: Path, directory: Path, seconds: float) -> None:
    cluster = RealCluster(
        Loopback(), directory, agents=2, plugins={"mock_driver": {"config": {"enabled": True}}}
    )
    try:
        await RollingUpgrade(cluster, checkout, directory, seconds).run()
    finally:
        await cluster.close()
        for agent in cluster.agents.values():
            await end_tasks(agent.data_dir)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--directory", default=None)
    arguments = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="rolling-upgrade-", dir=arguments.directory))
    try:
        asyncio.run(_run(arguments.checkout.resolve(), directory, arguments.seconds))
    except (AssertionError, TimeoutError) as error:
        print(f"{error!r}\nlogs and data: {directory}", file=sys.stderr)
        sys.exit(1)
    shutil.rmtree(directory)


if __name__ == "__main__":
    main()
