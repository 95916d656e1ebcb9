"""A whole agent against a server's side of the stream: real gRPC, real processes, real SQLite."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent, AgentConfig
from agent.supervisor.client import SupervisorClient
from orchgit.errors import DriverError
from orchgit.model.allocation import Allocation
from orchgit.model.job import Job
from orchgit.model.task import Task
from tests.support.agent_rig import mock_job
from tests.support.factories import make_allocation
from tests.support.stub_server import StubServer

Scenario = Callable[[StubServer, Agent], Coroutine[Any, Any, None]]


def raw_task(script: str, name: str = "web", **fields: Any) -> Task:
    config: dict[str, object] = {"command": "/bin/sh", "args": ["-c", script]}
    return Task(name=name, driver="raw_exec", config=config, kill_timeout_ns=10**9, **fields)


def allocation(agent: Agent, *tasks: Task, **group: Any) -> tuple[Allocation, Job]:
    job = mock_job(*tasks, **group)
    return make_allocation(job, agent.node()), job


def new_agent(server: StubServer, path: Path, **fields: Any) -> Agent:
    config = AgentConfig(
        data_dir=path,
        servers=(server.address,),
        drivers={"raw_exec": {"enabled": True}, "mock_driver": {"enabled": True}},
        **fields,
    )
    return Agent(config)


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Scenario], None]:
    """Runs a scenario with a server and a started agent; no process is left behind."""

    def go(scenario: Scenario) -> None:
        async def whole() -> None:
            server = StubServer()
            await server.start()
            agent = new_agent(server, tmp_path)
            await agent.start()
            try:
                await scenario(server, agent)
            finally:
                await agent.stop()
                await end_everything(tmp_path)
                await server.stop()

        asyncio.run(whole())

    return go


async def end_everything(data_dir: Path) -> None:
    """Kill what a test left running, and the supervisor itself."""
    client = SupervisorClient(data_dir / "client" / "supervisor")
    await client.connect()
    for report in await client.list():
        await client.stop(report.key, 9, 0)
        await client.wait(report.key)
        await client.ack(report.key)
    pid = client.pid
    await client.close()
    os.kill(pid, 9)


def output(agent: Agent, alloc: Allocation, stream: str = "stdout", task: str = "web") -> str:
    return (agent.config.alloc_root / alloc.id / f"alloc/logs/{task}.{stream}.0").read_text()


def test_task_runs_with_its_environment(run: Callable[[Scenario], None]) -> None:
    async def scenario(server: StubServer, agent: Agent) -> None:
        script = 'echo "$NOMAD_ALLOC_ID $NOMAD_TASK_NAME $WORD"; pwd'
        alloc, job = allocation(
            agent, raw_task(script, env={"WORD": "${NOMAD_JOB_ID}!"}), type="batch"
        )
        await agent.connected.wait()
        server.deliver((alloc, job))
        await server.until_status(alloc.id, "complete")
        first, cwd = output(agent, alloc).splitlines()
        assert first == f"{alloc.id} web {job.id}!"
        assert cwd == str(agent.config.alloc_root / alloc.id / "web")

    run(scenario)


def test_agent_first_sends_hello_and_a_full_report(run: Callable[[Scenario], None]) -> None:
    async def scenario(server: StubServer, agent: Agent) -> None:
        await server.until(lambda: len(server.frames) >= 2)
        assert [type(frame).__name__ for frame in server.frames[:2]] == [
            "AgentHello",
            "AgentAllocReports",
        ]
        assert server.nodes[0].drivers["raw_exec"].healthy

    run(scenario)


def test_stopped_allocation_ends_its_process(run: Callable[[Scenario], None]) -> None:
    async def scenario(server: StubServer, agent: Agent) -> None:
        alloc, job = allocation(agent, raw_task("exec sleep 300"))
        await agent.connected.wait()
        server.deliver((alloc, job))
        await server.until_status(alloc.id, "running")
        handle = agent.allocations.get(alloc.id).tasks["web"].handle
        assert handle is not None
        alloc.desired_status = "stop"
        server.deliver((alloc, job))
        await server.until_status(alloc.id, "complete")
        assert not Path(f"/proc/{handle.pid}").exists()

    run(scenario)


def test_restarted_agent_recovers_its_tasks(tmp_path: Path) -> None:
    async def whole() -> None:
        server = StubServer()
        await server.start()
        first = new_agent(server, tmp_path)
        await first.start()
        await first.connected.wait()
        alloc, job = allocation(first, raw_task("exec sleep 300"))
        server.deliver((alloc, job))
        await server.until_status(alloc.id, "running")
        handle = first.allocations.get(alloc.id).tasks["web"].handle
        await first.stop()
        server.reports.clear()
        second = new_agent(server, tmp_path)
        await second.start()
        await server.until_status(alloc.id, "running")
        again = second.allocations.get(alloc.id).tasks["web"].handle
        assert handle is not None
        assert again == handle
        assert second.node_id == first.node_id
        assert Path(f"/proc/{handle.pid}").exists()
        await second.stop()
        await end_everything(tmp_path)
        await server.stop()

    asyncio.run(whole())


def test_agent_without_the_driver_of_a_running_task_follows_and_ends_it(tmp_path: Path) -> None:
    async def whole() -> None:
        server = StubServer()
        await server.start()
        first = new_agent(server, tmp_path)
        await first.start()
        await first.connected.wait()
        alloc, job = allocation(first, raw_task("exec sleep 300"))
        server.deliver((alloc, job))
        await server.until_status(alloc.id, "running")
        handle = first.allocations.get(alloc.id).tasks["web"].handle
        await first.stop()
        server.reports.clear()
        second = new_agent(server, tmp_path, driver_denylist=("raw_exec",))
        await second.start()
        await server.until_status(alloc.id, "running")
        assert "raw_exec" not in second.node().drivers
        assert handle is not None
        with pytest.raises(DriverError, match='this node has no driver "raw_exec"'):
            await second.allocations.get(alloc.id).tasks["web"].run_command(["true"], 10)
        alloc.desired_status = "stop"
        server.deliver((alloc, job))
        await server.until_status(alloc.id, "complete")
        assert not Path(f"/proc/{handle.pid}").exists()
        await second.stop()
        await end_everything(tmp_path)
        await server.stop()

    asyncio.run(asyncio.wait_for(whole(), 120))
