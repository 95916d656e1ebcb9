"""An engine that dies under the agent: a task is never started twice, and never left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.allocations.alloc_runner import AllocRunner
from agent.drivers.docker.driver import DockerDriver
from agent.drivers.docker.options import DockerOptions
from orchgit.clock import SystemClock
from orchgit.model.group import RestartPolicy
from orchgit.model.task import Task
from tests.support import docker_engine
from tests.support.agent_rig import AgentRig, mock_job
from tests.support.engine_proxy import EngineProxy

pytestmark = [docker_engine.needs_docker, pytest.mark.docker]

Scenario = Callable[[EngineProxy], Awaitable[None]]


def run(path: Path, scenario: Scenario) -> None:
    async def whole() -> None:
        proxy = EngineProxy(docker_engine.engine().endpoint, path / "engine.sock")
        await proxy.open()
        try:
            async with asyncio.timeout(50):
                await scenario(proxy)
        finally:
            await proxy.close()

    asyncio.run(whole())


@asynccontextmanager
async def an_agent(path: Path, proxy: EngineProxy) -> AsyncIterator[AgentRig]:
    clock = SystemClock()
    driver = DockerDriver(path, DockerOptions(endpoint=proxy.endpoint), clock)
    rig = AgentRig(path, clock, {"docker": driver})
    try:
        yield rig
    finally:
        await rig.close()
        await driver.close()


def sleeper() -> Task:
    given = {
        **{"image": docker_engine.IMAGE, "network_mode": "host"},
        **{"command": "/bin/sleep", "args": ["1000"]},
    }
    policy = RestartPolicy(attempts=2, delay_ns=10**8)
    return Task(
        name="web", driver="docker", config=given, kill_timeout_ns=10**9, restart_policy=policy
    )


def containers(runner: AllocRunner) -> list[str]:
    """The states of all containers of the allocation, as the engine itself tells them."""
    label = {"label": f"org.orchgit.alloc_id={runner.id}"}
    with docker_engine.engine().client() as api:
        return [one["State"] for one in api.containers(all=True, filters=label)]


async def until_waiting(rig: AgentRig, runner: AllocRunner) -> None:
    await rig.until(
        lambda: any(
            event.display_message.startswith("Waiting for the driver")
            for event in rig.state(runner).events
        )
    )


async def stop(rig: AgentRig, runner: AllocRunner) -> None:
    rig.stop(runner)
    await rig.until_status(runner, "complete")
    await runner.ended.wait()
    assert containers(runner) == []


def test_agent_restarted_beside_a_dead_engine_keeps_its_task(tmp_path: Path) -> None:
    async def scenario(proxy: EngineProxy) -> None:
        async with an_agent(tmp_path, proxy) as rig:
            runner = rig.deliver(mock_job(sleeper()))
            await rig.until_status(runner, "running")
        proxy.cut()
        async with an_agent(tmp_path, proxy) as rig:
            (runner,) = list(rig.allocs)
            rig.update(runner.context.alloc, runner.context.job)
            await until_waiting(rig, runner)
            await proxy.open()
            await stop(rig, runner)
            assert runner.tasks["web"].record.attempt == 1

    run(tmp_path, scenario)


def test_stop_during_an_engine_outage_takes_effect_afterwards(tmp_path: Path) -> None:
    async def scenario(proxy: EngineProxy) -> None:
        async with an_agent(tmp_path, proxy) as rig:
            runner = rig.deliver(mock_job(sleeper()))
            await rig.until_status(runner, "running")
            proxy.cut()
            rig.stop(runner)
            await until_waiting(rig, runner)
            assert containers(runner) == ["running"]
            await proxy.open()
            await rig.until_status(runner, "complete")
            await runner.ended.wait()
            assert containers(runner) == []

    run(tmp_path, scenario)


@pytest.mark.parametrize("request_text", [b"/containers/create", b"/start "])
def test_start_cut_short_by_a_dead_engine_leaves_one_container(
    tmp_path: Path, request_text: bytes
) -> None:
    async def scenario(proxy: EngineProxy) -> None:
        async with an_agent(tmp_path, proxy) as rig:
            proxy.cut_at(request_text)
            runner = rig.deliver(mock_job(sleeper()))
            await proxy.is_cut.wait()
            await until_waiting(rig, runner)
            await proxy.open()
            await rig.until_status(runner, "running")
            assert containers(runner) == ["running"]
            await stop(rig, runner)

    run(tmp_path, scenario)


def test_allocation_ended_while_its_start_hangs_leaves_no_container(tmp_path: Path) -> None:
    async def scenario(proxy: EngineProxy) -> None:
        async with an_agent(tmp_path, proxy) as rig:
            proxy.cut_at(b"/start ")
            runner = rig.deliver(mock_job(sleeper()))
            await proxy.is_cut.wait()
            rig.stop(runner)
            await until_waiting(rig, runner)
            await proxy.open()
            await rig.until_status(runner, "complete")
            await runner.ended.wait()
            assert containers(runner) == []

    run(tmp_path, scenario)


def test_container_of_an_allocation_that_the_agent_forgot_is_removed(tmp_path: Path) -> None:
    async def scenario(proxy: EngineProxy) -> None:
        async with an_agent(tmp_path / "here", proxy) as rig:
            forgotten, kept = (rig.deliver(mock_job(sleeper())) for _ in range(2))
            for runner in (forgotten, kept):
                await rig.until_status(runner, "running")
            clock, options = SystemClock(), DockerOptions(endpoint=proxy.endpoint)
            other = DockerDriver(tmp_path / "elsewhere", options, clock)
            await other.end_orphans(lambda alloc_id: False)
            assert containers(forgotten) == ["running"], "it is another agent's"
            again = DockerDriver(tmp_path / "here", options, clock)
            await again.end_orphans(lambda alloc_id: alloc_id == kept.id)
            assert containers(forgotten) == []
            assert containers(kept) == ["running"]
            for driver in (other, again):
                await driver.close()
            await stop(rig, kept)

    run(tmp_path, scenario)
