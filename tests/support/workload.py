"""Clients of a cluster that goes through bad times: they write on, and note what came back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.history import History
from tests.support.linearizable import INITIAL, Operation
from tests.support.pacing import pause
from tests.support.polling import until
from tests.support.raw_http import Answer, RawConnection
from tests.support.real_cluster import HostProcess, RealCluster

_PATIENCE_S = 3.0
_PAUSE_S = (0.0, 0.02)


class Client:
    """Stays with a server until it fails, then takes another one."""

    def __init__(self, servers: list[HostProcess], chance: random.Random) -> None:
        self._servers = servers
        self._chance = chance
        self._connection: RawConnection | None = None
        self._server = chance.choice(servers)

    async def request(self, method: str, path: str, body: bytes = b"") -> Answer | None:
        """None: nobody knows what became of it."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                if self._connection is None or not self._connection.is_open:
                    place = self._server.place
                    self._connection = await RawConnection.open(self._server.http, place.dial)
                answer = await self._connection.request(method, path, body)
        except (OSError, TimeoutError):
            self._leave()
            return None
        assert "validation failed" not in answer.text, answer.text
        if answer.status >= 500:
            self._leave()
            return None
        return answer

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._server = self._chance.choice(self._servers)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


class VariableClient:
    """Reads and check-and-sets some variables, on what it knows of them."""

    def __init__(
        self, client: Client, history: History, keys: list[str], chance: random.Random
    ) -> None:
        self._client = client
        self._history = history
        self._chance = chance
        self._known = dict.fromkeys(keys, 0)

    async def run(self) -> None:
        while True:
            key = self._chance.choice(list(self._known))
            await (self.read(key) if self._chance.random() < 0.3 else self.set(key))
            await pause(self._chance.uniform(*_PAUSE_S), "the time between operations")

    async def read(self, key: str) -> bool:
        """Whether there was an answer."""
        began = time.monotonic()
        answer = await self._client.request("GET", f"/v1/var/{key}?consistent")
        if answer is None:
            self._history.failures += 1
            return False
        self._note_read(key, began, answer)
        return True

    async def set(self, key: str) -> bool:
        """Whether it was set."""
        value, expected = self._history.new_value(), self._known[key]
        write = Operation(True, value, time.monotonic())
        self._history.keys[key].operations.append(write)
        body = json.dumps({"Items": {"value": str(value)}}).encode()
        answer = await self._client.request("PUT", f"/v1/var/{key}?cas={expected}", body)
        if answer is None:
            self._history.failures += 1
            return False
        if answer.status == 409:
            # It did not happen; what was there instead is as good as a read.
            self._history.keys[key].operations.remove(write)
            self._note_read(key, write.began, answer)
            return False
        assert answer.status == 200, f"{key}: {answer.status} {answer.text}"
        write.ended = time.monotonic()
        self._known[key] = answer.json()["ModifyIndex"]
        self._history.written(key, write, expected, self._known[key])
        return True

    def _note_read(self, key: str, began: float, answer: Answer) -> None:
        found = {} if answer.status == 404 else answer.json()
        items = found.get("Items") or {"value": str(INITIAL)}
        self._known[key] = found.get("ModifyIndex", 0)
        read = Operation(False, int(items["value"]), began, time.monotonic())
        self._history.read(key, read, self._known[key])


class JobClient:
    """Registers new jobs, each of one short task that says in a file that it ran."""

    def __init__(self, client: Client, history: History, name: str, marks: str) -> None:
        self._client = client
        self._history = history
        self._name = name
        self._marks = marks

    async def run(self) -> None:
        number = 0
        while True:
            number += 1
            await self.register(f"{self._name}-{number}")
            await pause(0.2, "the time between jobs")

    async def register(self, job_id: str) -> None:
        answer = await self._client.request("PUT", "/v1/jobs", marking_job(job_id, self._marks))
        if answer is None:
            self._history.failures += 1
            return
        assert answer.status == 200, f"{job_id}: {answer.status} {answer.text}"
        self._history.jobs.add(job_id)


def marking_job(job_id: str, marks: str) -> bytes:
    """A batch job that appends its allocation's id to `marks`, once for each start."""
    return _job(job_id, "batch", f"echo $NOMAD_ALLOC_ID >> {marks}")


def staying_job(job_id: str) -> bytes:
    """A service whose task runs until it is told to end."""
    return _job(job_id, "service", "exec sleep 1000000")


def _job(job_id: str, kind: str, command: str) -> bytes:
    task = {
        "Name": "main",
        "Driver": "raw_exec",
        "Config": {"command": "/bin/sh", "args": ["-c", command]},
        "Resources": {"CPU": 1, "MemoryMB": 10},
        "LogConfig": {"MaxFiles": 1, "MaxFileSizeMB": 1},
    }
    group = {
        "Name": "main",
        "Count": 1,
        "Tasks": [task],
        "RestartPolicy": {"Attempts": 0, "Mode": "fail"},
        "EphemeralDisk": {"SizeMB": 10},
    }
    job = {"ID": job_id, "Name": job_id, "Type": kind, "TaskGroups": [group]}
    return json.dumps({"Job": {**job, "Datacenters": ["*"]}}).encode()


@asynccontextmanager
async def at_work(
    cluster: RealCluster,
    seed: int,
    clients: int = 6,
    keys: int = 4,
    marks: str = "",
    place: str = "work",
) -> AsyncIterator[History]:
    """Clients write while the block runs; at its end every variable is read once more.

    `marks`: jobs are registered too, and this file is what their tasks write to. `place` is where
    the variables are: nothing else may write there, nor have written.
    """
    chance, history = random.Random(seed), History()
    names = [f"{place}/{number}" for number in range(keys)]
    servers = list(cluster.servers.values())
    connections = [Client(servers, random.Random(chance.random())) for _ in range(clients + 2)]
    writers = [VariableClient(one, history, names, chance) for one in connections[:clients]]
    work = [one.run() for one in writers]
    if marks:
        work.append(JobClient(connections[clients], history, f"job-{seed}", marks).run())
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield history
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        problems = [one for one in ended if isinstance(one, Exception)]
        assert not problems, problems
        await _read_all(VariableClient(connections[-1], history, names, chance), names)
        for one in connections:
            one.close()


async def _read_all(client: VariableClient, names: list[str]) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(20):
            for name in names:
                await until(lambda name=name: client.read(name), every_s=0.05)
