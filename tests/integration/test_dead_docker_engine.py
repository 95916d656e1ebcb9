"""An engine that dies under the agent: a task is never started twice, and never left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.alloc_runner import AllocRunner
from agent.drivers.docker.config import DockerOptions
from agent.drivers.docker.driver import DockerDriver
from orchgit.clock import SystemClock
from orchgit.model.task import Task
from tests.support import docker_engine
from tests.support.agent_rig import AgentRig, mock_job
from tests.support.docker_engine import IMAGE, MortalEngine

pytestmark = [docker_engine.needs_docker, pytest.mark.docker]


@pytest.fixture(scope="module")
def engine() -> MortalEngine:
    made = MortalEngine()
    made.start()
    yield made
    made.close()


def run(engine: MortalEngine, scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(120):
            await scenario()

    asyncio.run(whole())


@asynccontextmanager
async def an_agent(path: Path, engine: MortalEngine) -> AsyncIterator[AgentRig]:
    clock = SystemClock()
    driver = DockerDriver(path, DockerOptions(endpoint=engine.endpoint), clock)
    rig = AgentRig(path, clock, {"docker": driver})
    try:
        yield rig
    finally:
        await rig.close()
        await driver.close()


def sleeper() -> Task:
    given = {"image": IMAGE, "network_mode": "host", "command": "/bin/sleep", "args": ["1000"]}
    return Task(name="web", driver="docker", config=given, kill_timeout_ns=10**9)


async def until_waiting(rig: AgentRig, runner: AllocRunner) -> None:
    await rig.until(
        lambda: any(
            event.message.startswith("Waiting for the driver") for event in rig.state(runner).events
        )
    )


async def stopped(rig: AgentRig, runner: AllocRunner, engine: MortalEngine) -> None:
    rig.stop(runner)
    await rig.until_status(runner, "complete")
    await runner.ended.wait()
    assert engine.containers(runner.id) == []


def test_an_agent_that_restarts_beside_a_dead_engine_takes_its_task_up_again(
    tmp_path: Path, engine: MortalEngine
) -> None:
    async def scenario() -> None:
        async with an_agent(tmp_path, engine) as rig:
            runner = rig.deliver(mock_job(sleeper()))
            await rig.until_status(runner, "running")
        engine.kill()
        async with an_agent(tmp_path, engine) as rig:
            (runner,) = list(rig.allocs)
            rig.update(runner.context.alloc, runner.context.job)
            await until_waiting(rig, runner)
            await asyncio.to_thread(engine.start)
            assert engine.containers(runner.id) == ["running"]
            assert runner.tasks["web"].record.attempt == 1
            await stopped(rig, runner, engine)

    run(engine, scenario)


def test_a_stop_that_an_engine_did_not_hear_reaches_it_when_it_is_back(
    tmp_path: Path, engine: MortalEngine
) -> None:
    async def scenario() -> None:
        async with an_agent(tmp_path, engine) as rig:
            runner = rig.deliver(mock_job(sleeper()))
            await rig.until_status(runner, "running")
            engine.kill()
            rig.stop(runner)
            await until_waiting(rig, runner)
            await asyncio.to_thread(engine.start)
            await rig.until_status(runner, "complete")
            await runner.ended.wait()
            assert engine.containers(runner.id) == []

    run(engine, scenario)


def test_a_start_that_a_dead_engine_cut_short_leaves_one_container(
    tmp_path: Path, engine: MortalEngine
) -> None:
    async def scenario() -> None:
        async with an_agent(tmp_path, engine) as rig:
            known = rig.deliver(mock_job(sleeper()))
            await rig.until_status(known, "running")
            engine.kill()
            runner = rig.deliver(mock_job(sleeper()))
            await until_waiting(rig, runner)
            await asyncio.to_thread(engine.start)
            await rig.until_status(runner, "running")
            assert engine.containers(runner.id) == ["running"]
            assert engine.containers(known.id) == ["running"]
            await stopped(rig, runner, engine)
            await stopped(rig, known, engine)

    run(engine, scenario)
