"""Workload identities of a running task count on, whoever leads and whichever key signs."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import httpx
import pytest

from tests.support.loopback import Loopback
from tests.support.polling import until
from tests.support.real_cluster import HostProcess, RealCluster

pytestmark = pytest.mark.long

PATH = "nomad/jobs/reads"
RETRIED = (OSError, TimeoutError, AssertionError, httpx.HTTPError)


def reading_job() -> bytes:
    text = '{{ with nomadVar "' + PATH + '" }}{{ .value }}{{ end }}'
    task = {
        "Name": "main",
        "Driver": "raw_exec",
        "Config": {"command": "/bin/sleep", "args": ["100000"]},
        "Identity": {"File": True},
        "Templates": [{"EmbeddedTmpl": text, "DestPath": "local/value", "ChangeMode": "noop"}],
        "Resources": {"CPU": 1, "MemoryMB": 10},
    }
    group = {"Name": "main", "Count": 1, "Tasks": [task]}
    job = {"ID": "reads", "Name": "reads", "Type": "service", "TaskGroups": [group]}
    return json.dumps({"Job": {**job, "Datacenters": ["*"]}}).encode()


class Reader:
    """The task that reads the variable, by its template and by the task's API."""

    def __init__(self, cluster: RealCluster, directory: Path) -> None:
        self._cluster = cluster
        self._task = directory

    @property
    def token(self) -> str:
        return (self._task / "secrets" / "nomad_token").read_text()

    async def write(self, value: str) -> None:
        body = json.dumps({"Items": {"value": value}}).encode()

        async def written() -> bool:
            leader = await self._cluster.leader(self._running())
            return (await leader.ask("PUT", f"/v1/var/{PATH}", body)).status == 200

        await until(written, 60.0, "no server takes the variable", retried=RETRIED)

    async def reads(self, value: str, *tokens: str) -> None:
        """Waits until the template shows the value; each token reads it through the socket."""
        file = self._task / "local" / "value"
        await until(lambda: file.read_text() == value, 120.0, f"the template does not show {value}")
        for token in tokens:
            await until(
                lambda token=token: self._asks(token, value), 60.0, retried=RETRIED, every_s=0.2
            )

    def _asks(self, token: str, value: str) -> bool:
        secrets = os.open(self._task / "secrets", os.O_PATH)  # a path to a socket has to be short
        transport = httpx.HTTPTransport(uds=f"/proc/self/fd/{secrets}/api.sock")
        try:
            with httpx.Client(transport=transport, base_url="http://localhost") as client:
                answer = client.get(f"/v1/var/{PATH}", headers={"X-Nomad-Token": token})
        finally:
            os.close(secrets)
        assert answer.status_code == 200, answer.text
        return bool(answer.json()["Items"] == {"value": value})

    def _running(self) -> list[HostProcess]:
        return [one for one in self._cluster.servers.values() if one.is_running]


async def key_ids(server: HostProcess) -> set[str]:
    keys = (await server.get("/.well-known/jwks.json"))["keys"]
    return {key["kid"] for key in keys}


async def all_know(cluster: RealCluster, count: int) -> set[str]:
    """Waits until every server publishes that many keys, the same; their ids."""

    async def equal() -> set[str] | None:
        found = [await key_ids(one) for one in cluster.servers.values() if one.is_running]
        same = all(each == found[0] for each in found) and len(found[0]) == count
        return found[0] if same else None

    return await until(equal, 60.0, f"the servers do not publish {count} keys", retried=RETRIED)


async def started(cluster: RealCluster) -> Reader:
    leader = await cluster.leader()
    await leader.ask("PUT", f"/v1/var/{PATH}", b'{"Items": {"value": "1"}}')
    answer = await leader.ask("PUT", "/v1/jobs", reading_job())
    assert answer.status == 200, answer.text

    async def running() -> str | None:
        found = await leader.get("/v1/job/reads/allocations")
        return found[0]["ID"] if [each["ClientStatus"] for each in found] == ["running"] else None

    alloc_id = await until(running, 60.0, "the task does not run", retried=RETRIED)
    (task,) = cluster.agents["a1"].data_dir.glob(f"**/{alloc_id}/main")
    return Reader(cluster, task)


def test_identity_counts_on_after_the_loss_of_leaders_and_a_rotation_of_the_key(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        cluster = RealCluster(Loopback(), tmp_path, agents=1, acl=True)
        try:
            await cluster.start()
            reader = await started(cluster)
            await reader.reads("1", reader.token)
            first = await all_know(cluster, 1)
            token = reader.token

            lost = await cluster.leader()
            await lost.kill()
            await reader.write("2")
            await reader.reads("2", token)

            leader = await cluster.leader(cluster.followers(lost))
            answer = await leader.ask("PUT", "/v1/operator/keyring/rotate")
            assert answer.status == 200, answer.text
            both = await all_know(cluster, 2)
            assert first < both
            await reader.write("3")
            await reader.reads("3", token)

            await lost.start()
            await lost.answers()
            assert await all_know(cluster, 2) == both
            await (await cluster.leader()).kill()
            await reader.write("4")
            await reader.reads("4", token, reader.token)
            assert await all_know(cluster, 2) == both
        finally:
            await cluster.close()

    asyncio.run(scenario())
