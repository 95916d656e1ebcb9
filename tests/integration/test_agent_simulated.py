"""Simulated nodes over real streams."""

from __future__ import annotations

import asyncio

import pytest

from agent.simulated.nodes import SimulatedConfig, SimulatedNodes
from agent.simulated.processes import SimulatedProcesses
from orchgit.errors import OrchgitError
from orchgit.model.group import UpdateStrategy
from tests.support.agent_rig import mock_job, mock_task
from tests.support.factories import make_allocation
from tests.support.polling import until
from tests.support.stub_server import StubServer


def test_simulated_allocations_run_end_and_fail() -> None:
    async def whole() -> None:
        server = StubServer()
        await server.start()
        nodes = SimulatedNodes(SimulatedConfig(servers=(server.address,), nodes=1))
        await nodes.start()
        await nodes.connected()
        jobs = {
            "running": mock_job(update=UpdateStrategy(min_healthy_time_ns=10**7)),
            "complete": mock_job(mock_task(config={"run_for": "10ms"}), type="batch"),
            "failed": mock_job(mock_task(config={"run_for": "1ms", "exit_code": 2}), type="batch"),
        }
        allocs = {
            status: make_allocation(job, server.nodes[0], deployment_id="d")
            for status, job in jobs.items()
        }
        server.deliver(*((allocs[status], jobs[status]) for status in jobs))
        for status, alloc in allocs.items():
            await server.until_status(alloc.id, status)
        running = allocs["running"]
        await server.until(lambda: server.reports[running.id].deployment_healthy is True)
        assert nodes.running() == 1
        running.desired_status = "stop"
        server.deliver((running, jobs["running"]))
        await server.until_status(running.id, "complete")
        await nodes.stop()
        await server.stop()

    asyncio.run(whole())


def test_simulated_nodes_share_connections() -> None:
    async def whole() -> None:
        server = StubServer()
        await server.start()
        config = SimulatedConfig(servers=(server.address,), nodes=150, datacenters=("a", "b"))
        nodes = SimulatedNodes(config)
        await nodes.start()
        await nodes.connected()
        await server.until(lambda: len(server.nodes) == 150)
        assert len({node.id for node in server.nodes}) == 150
        assert sum(node.datacenter == "a" for node in server.nodes) == 75
        await nodes.stop()
        await server.stop()

    asyncio.run(whole())


def test_processes_of_simulated_nodes_connect_all_and_end_with_their_parent() -> None:
    async def whole() -> None:
        server = StubServer()
        await server.start()
        with SimulatedProcesses([server.address], 5, 2, ["a", "b"]) as processes:
            await until(lambda: processes.figures().connected == 5)
            assert processes.figures().nodes == 5
            assert processes.figures().losses == 0
        names = {node.name for node in server.nodes}
        assert names == {f"sim-{number}" for number in range(5)}
        await server.stop()

    asyncio.run(whole())


def test_process_of_simulated_nodes_that_ends_is_an_error_that_says_why() -> None:
    async def whole() -> None:
        with SimulatedProcesses(["127.0.0.1:1"], 1, 1, ["-no-datacenter"]) as processes:
            with pytest.raises(OrchgitError, match=r"nodes ended .*expected one argument"):
                await until(lambda: processes.figures().connected == 1)

    asyncio.run(whole())
