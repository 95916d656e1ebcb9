"""What the task runner relies on, asked of every driver alike, the mock included."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agent.drivers.base import Driver, TaskConfig, TaskHandle
from orchgit.errors import DriverError
from tests.support import docker_engine, podman_engine
from tests.support.driver_rigs import Rig, exec_works, log_text, rig, task_config
from tests.support.polling import until

_NO_EXEC = pytest.mark.skipif(not exec_works(), reason="needs root and crun or runc")

pytestmark = pytest.mark.parametrize(
    "name",
    [
        "mock_driver",
        "raw_exec",
        pytest.param("exec", marks=_NO_EXEC),
        pytest.param("docker", marks=[docker_engine.needs_docker, pytest.mark.docker]),
        pytest.param("podman", marks=[podman_engine.needs_podman, pytest.mark.long]),
    ],
)

Scenario = Callable[[Driver, Rig, Callable[[dict[str, object]], TaskConfig]], Awaitable[None]]


def run(name: str, directory: Path, scenario: Scenario) -> None:
    """Run `scenario` with a fresh driver; every allocation of a run has a new id."""

    async def body() -> None:
        tested = rig(name)

        def configure(config: dict[str, object], **fields: object) -> TaskConfig:
            alloc_id = f"{secrets.token_hex(4)}-0000-4000-8000-000000000001"
            return task_config(directory, config, **{"alloc_id": alloc_id, **fields})

        async with tested.open(directory) as driver, asyncio.timeout(60):
            await scenario(driver, tested, configure)

    asyncio.run(body())


async def until_ready(task: TaskConfig) -> None:
    await until(lambda: "ready" in log_text(task))


@pytest.mark.parametrize("code", [0, 3])
def test_exit_code_is_reported_to_every_waiter(name: str, tmp_path: Path, code: int) -> None:
    async def scenario(driver, rig, configure):
        handle = await driver.start_task(configure(rig.exits(code)))
        results = await asyncio.gather(*(driver.wait_task(handle) for _ in range(3)))
        results.append(await driver.wait_task(handle))
        assert [result.exit_code for result in results] == [code] * 4
        assert results[0].successful == (code == 0)
        assert results[0].finished_ns >= handle.started_ns - 2_000_000_000
        await driver.destroy_task(handle)

    run(name, tmp_path, scenario)


def test_healthy_driver_is_fingerprinted_as_healthy(name: str, tmp_path: Path) -> None:
    async def scenario(driver, rig, configure):
        info = await driver.fingerprint()
        assert (info.detected, info.healthy) == (True, True), info.health_description
        assert info.attributes[f"driver.{name}"] == "1"

    run(name, tmp_path, scenario)


def test_repeated_start_starts_no_second_task(name: str, tmp_path: Path) -> None:
    async def scenario(driver, rig, configure):
        task = configure(rig.prints("once"))
        first, second = await asyncio.gather(driver.start_task(task), driver.start_task(task))
        await driver.wait_task(first)
        third = await driver.start_task(task)
        assert {first.key, second.key, third.key} == {task.key}
        assert log_text(task) == "once\n"
        assert (await driver.wait_task(third)).successful
        await driver.destroy_task(first)

    run(name, tmp_path, scenario)


def test_stopped_task_ends_within_its_kill_timeout(name: str, tmp_path: Path) -> None:
    async def scenario(driver, rig, configure):
        task = configure(rig.runs(), kill_timeout_s=30)
        handle = await driver.start_task(task)
        await until_ready(task)
        await driver.stop_task(handle, signal="SIGTERM")
        result = await driver.wait_task(handle)
        assert result.exit_code in (7, 143)
        await driver.stop_task(handle)  # once more is no error
        await driver.destroy_task(handle)

    run(name, tmp_path, scenario)


def test_task_that_ignores_the_signal_is_killed(name: str, tmp_path: Path) -> None:
    async def scenario(driver, rig, configure):
        task = configure(rig.ignores_signals())
        handle = await driver.start_task(task)
        await until_ready(task)
        await driver.stop_task(handle, timeout_s=0.1)
        assert (await driver.wait_task(handle)).exit_code == 137
        await driver.destroy_task(handle)

    run(name, tmp_path, scenario)


def test_destroyed_task_ends_and_is_forgotten(name: str, tmp_path: Path) -> None:
    async def scenario(driver, rig, configure):
        handle = await driver.start_task(configure(rig.ignores_signals()))
        assert await driver.recover_task(handle)
        await driver.destroy_task(handle)
        assert not await driver.recover_task(handle)
        await driver.destroy_task(handle)
        with pytest.raises(DriverError, match=r"^cannot"):
            await driver.wait_task(handle)

    run(name, tmp_path, scenario)


def test_task_whose_handle_was_lost_is_destroyed_by_its_key(name: str, tmp_path: Path) -> None:
    async def scenario(driver, rig, configure):
        task = configure(rig.runs())
        handle = await driver.start_task(task)
        await driver.destroy_task(TaskHandle(driver=name, key=task.key, started_ns=0))
        assert not await driver.recover_task(handle)

    run(name, tmp_path, scenario)


def test_unknown_key_is_refused_naming_the_nearest(name: str, tmp_path: Path) -> None:
    wrong = {"mock_driver": ("exit_cod", "exit_code")}.get(name, ("comand", "command"))

    async def scenario(driver, rig, configure):
        task = configure({**rig.exits(0), wrong[0]: "x"})
        with pytest.raises(DriverError, match=f'unknown key "{wrong[0]}".*"{wrong[1]}"'):
            await driver.start_task(task)

    run(name, tmp_path, scenario)


def test_failed_start_leaves_no_task(name: str, tmp_path: Path) -> None:
    async def scenario(driver, rig, configure):
        task = configure(rig.cannot_start())
        for _ in range(2):
            with pytest.raises(DriverError, match="cannot"):
                await driver.start_task(task)
        again = task_config(tmp_path, rig.exits(0), alloc_id=task.alloc_id, attempt=1)
        handle = await driver.start_task(again)
        assert (await driver.wait_task(handle)).successful
        await driver.destroy_task(handle)

    run(name, tmp_path, scenario)


def test_signal_needs_a_known_name_and_a_running_task(name: str, tmp_path: Path) -> None:
    async def scenario(driver, rig, configure):
        with pytest.raises(DriverError, match="SIGNONE"):
            await driver.start_task(configure(rig.runs(), kill_signal="SIGNONE"))
        handle = await driver.start_task(configure(rig.exits(0)))
        await driver.wait_task(handle)
        with pytest.raises(DriverError, match="cannot signal"):
            await driver.signal_task(handle, "SIGHUP")
        await driver.destroy_task(handle)

    run(name, tmp_path, scenario)


def test_exec_runs_a_command_beside_the_task(name: str, tmp_path: Path) -> None:
    async def scenario(driver, rig, configure):
        task = configure(rig.runs())
        handle = await driver.start_task(task)
        await until_ready(task)
        said = await driver.exec_task(handle, ["echo", "hello", "there"], 20)
        assert (said.output, said.exit_code) == (b"hello there\n", 0)
        failed = ["exit", "5"] if name == "mock_driver" else ["/bin/sh", "-c", "exit 5"]
        assert (await driver.exec_task(handle, failed, 20)).exit_code == 5
        await driver.destroy_task(handle)

    run(name, tmp_path, scenario)


def test_new_agent_recovers_the_task(name: str, tmp_path: Path) -> None:
    tested = rig(name)

    async def body() -> None:
        task = task_config(
            tmp_path, tested.runs(), alloc_id=f"{secrets.token_hex(4)}-0000-4000-8000-000000000002"
        )
        async with tested.open(tmp_path) as driver:
            handle = await driver.start_task(task)
            await until_ready(task)
        async with tested.open(tmp_path) as driver, asyncio.timeout(60):
            assert await driver.recover_task(handle) == tested.survives
            if tested.survives:
                assert (await driver.start_task(task)).pid == handle.pid
                await driver.stop_task(handle, signal="SIGTERM")
                assert (await driver.wait_task(handle)).exit_code == 7
                assert log_text(task) == "ready\n"
            await driver.destroy_task(handle)

    asyncio.run(body())
