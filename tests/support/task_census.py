"""Services that people change all the time, and a count of their real processes on every host."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.cluster_net import FaultyNetwork
from tests.support.crowding import crowding
from tests.support.pacing import pause
from tests.support.polling import until
from tests.support.real_cluster import HostProcess, RealCluster
from tests.support.workload import Client

_SETTLES_S = 60.0
_PAUSE_S = (0.2, 1.5)


def service(job_id: str, count: int, number: int) -> bytes:
    """Version `number` of a service whose tasks run until they are told to end."""
    task = {
        "Name": "main",
        "Driver": "raw_exec",
        "Config": {"command": "/bin/sleep", "args": ["1000000"]},
        "Env": {"NUMBER": str(number)},
        "Resources": {"CPU": 1, "MemoryMB": 10},
        "LogConfig": {"MaxFiles": 1, "MaxFileSizeMB": 1},
        "KillTimeout": 1_000_000_000,
    }
    group = {
        "Name": "main",
        "Count": count,
        "Tasks": [task],
        "RestartPolicy": {"Attempts": 100, "Interval": 10**12, "Delay": 10**8, "Mode": "delay"},
        "ReschedulePolicy": {"Delay": 5 * 10**9, "DelayFunction": "constant", "Unlimited": True},
        "EphemeralDisk": {"SizeMB": 10},
    }
    job = {"ID": job_id, "Name": job_id, "Type": "service", "TaskGroups": [group]}
    return json.dumps({"Job": {**job, "Datacenters": ["*"]}}).encode()


class Changer:
    """Registers, updates, scales, reverts, stops and purges some services, until it is paused."""

    def __init__(self, cluster: RealCluster, chance: random.Random, services: int = 4) -> None:
        self._client = Client(list(cluster.servers.values()), chance)
        self._chance = chance
        self._names = [f"service-{number}" for number in range(services)]
        self._number = 0
        self.may_work = asyncio.Event()
        self.changes = 0

    async def run(self) -> None:
        while True:
            await self.may_work.wait()
            await self.change(self._chance.choice(self._names))
            await pause(self._chance.uniform(*_PAUSE_S), "the time between changes")

    async def change(self, name: str) -> None:
        what = self._chance.choice(["register"] * 4 + ["revert", "stop", "purge", "bounce"])
        self.changes += 1
        if what == "stop":
            await self._client.request("DELETE", f"/v1/job/{name}")
        elif what == "purge":
            await self._client.request("DELETE", f"/v1/job/{name}?purge=true")
        elif what == "revert":
            body = json.dumps({"JobID": name, "JobVersion": 0}).encode()
            await self._client.request("PUT", f"/v1/job/{name}/revert", body)
        elif what == "bounce":
            await self.register(name, 1)
            await self.register(name, 2)
            body = json.dumps({"JobID": name, "JobVersion": 0}).encode()
            await self._client.request("PUT", f"/v1/job/{name}/revert", body)
            await self._client.request("DELETE", f"/v1/job/{name}?purge=true")
        else:
            await self.register(name, self._chance.randint(1, 3))

    async def register(self, name: str, count: int) -> None:
        self._number += 1
        await self._client.request("PUT", "/v1/jobs", service(name, count, self._number))


@dataclass
class Census:
    """What runs against what is wanted."""

    doubled: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        return not (self.doubled or self.lost or self.stuck)


async def census(cluster: RealCluster, network: FaultyNetwork) -> Census:
    """Every wanted allocation has one process on its node, every count is met, nothing else runs;
    and no allocation waits for ever to be stopped."""
    leader = await cluster.leader()
    jobs = {one["ID"]: one for one in await leader.get("/v1/jobs") if one["Type"] == "service"}
    allocations = [
        one for one in await leader.get("/v1/allocations") if one["JobType"] == "service"
    ]
    names = {one["ID"]: one["Name"] for one in await leader.get("/v1/nodes")}
    found: Counter[tuple[str, str]] = Counter()
    for host in cluster.agents:
        found.update((host, alloc_id) for alloc_id in _services_on(network, host))
    wanted = {
        (names[one["NodeID"]], one["ID"]): one["JobID"]
        for one in allocations
        if one["DesiredStatus"] == "run" and one["ClientStatus"] == "running"
    }
    result = Census()
    for key, number in found.items():
        result.doubled += [f"{key}"] * (number - 1 if key in wanted else number)
    result.lost += [f"{key}" for key in wanted if not found[key]]
    counts = Counter(wanted.values())
    for job_id, job in jobs.items():
        count = 0 if job["Stop"] else (await _count(leader, job_id))
        result.lost += [f"of {job_id}"] * max(0, count - counts[job_id])
        result.doubled += [f"of {job_id}"] * max(0, counts[job_id] - count)
    result.stuck = [
        one["ID"]
        for one in allocations
        if one["DesiredStatus"] != "run" and one["ClientStatus"] in ("running", "pending")
    ]
    return result


async def settles(cluster: RealCluster, network: FaultyNetwork) -> tuple[float, Census]:
    """Returns the seconds until the census was right, and the last census.

    The census says what was wrong at the end of the time for it, if it did not become right.
    """
    result = Census()

    async def is_right() -> bool:
        nonlocal result
        try:
            result = await census(cluster, network)
        except (OSError, TimeoutError, AssertionError) as error:
            result = Census(lost=[f"no answer: {error}"])
        return result.is_right

    began_s = time.monotonic()
    with contextlib.suppress(AssertionError):
        await until(is_right, _SETTLES_S * crowding(), every_s=0.1)
    return time.monotonic() - began_s, result


async def _count(leader: HostProcess, job_id: str) -> int:
    job = await leader.get(f"/v1/job/{job_id}")
    return int(job["TaskGroups"][0]["Count"])


def _services_on(network: FaultyNetwork, host: str) -> list[str]:
    """The allocation of each task's process there."""
    found = []
    for pid in network.pids(host):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if command.startswith(b"/bin/sleep\x001000000"):
            found += [
                entry.partition(b"=")[2].decode()
                for entry in environment
                if entry.startswith(b"NOMAD_ALLOC_ID=")
            ]
    return found
