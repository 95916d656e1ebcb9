"""Nodes of a real cluster that are away for longer than a heartbeat, and come back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.cluster_net import FaultyNetwork, faulty_cluster
from tests.support.real_cluster import RealCluster, until
from tests.support.task_census import service, settles

HEARTBEATS = {
    "min_heartbeat_ttl": "1s",
    "heartbeat_grace": "1s",
    "failover_heartbeat_ttl": "3s",
}


async def until_status(cluster: RealCluster, host: str, status: str) -> None:
    async def told() -> bool:
        nodes = await (await cluster.leader()).get("/v1/nodes")
        return [one["Status"] for one in nodes if one["Name"] == host] == [status]

    await until(told, 60.0, f"{host} is not {status}")


async def assert_right(cluster: RealCluster, network: FaultyNetwork) -> None:
    _, census = await settles(cluster, network)
    assert census.is_right, census


@pytest.mark.long
def test_returning_nodes_run_only_the_desired_allocations(tmp_path: Path) -> None:
    async def whole() -> None:
        async with faulty_cluster(tmp_path, servers=1, agents=2, server_options=HEARTBEATS) as (
            cluster,
            network,
        ):
            leader = await cluster.leader()
            for name in ("stays", "goes"):
                answer = await leader.ask("PUT", "/v1/jobs", service(name, 4, 1))
                assert answer.status == 200, answer.text
            await assert_right(cluster, network)
            for host, how in (("a1", "killed"), ("a2", "cut off")):
                agent = cluster.agents[host]
                if how == "killed":
                    await agent.kill()
                else:
                    network.part([host], cluster.servers)
                await until_status(cluster, host, "down")
                if how == "killed":
                    await leader.ask("DELETE", "/v1/job/goes?purge=true")
                    await leader.ask("PUT", "/v1/jobs", service("stays", 4, 2))
                    await agent.start()
                else:
                    network.mend()
                await until_status(cluster, host, "ready")
                await assert_right(cluster, network)

    asyncio.run(whole())
