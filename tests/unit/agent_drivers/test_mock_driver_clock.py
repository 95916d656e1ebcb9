"""The mock driver on a fake clock: it does what its config says, when it says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agent.drivers.mock import MockDriver
from orchgit.clock import FakeClock
from orchgit.errors import DriverError
from tests.support.driver_rigs import log_text, task_config


def run(scenario: Callable[[MockDriver, FakeClock], Awaitable[None]]) -> None:
    async def body() -> None:
        clock = FakeClock()
        driver = MockDriver(clock)
        await scenario(driver, clock)
        await driver.close()

    asyncio.run(body())


def test_mock_task_runs_for_run_for(tmp_path: Path) -> None:
    async def scenario(driver: MockDriver, clock: FakeClock) -> None:
        task = task_config(tmp_path, {"run_for": "10s", "exit_code": 3, "exit_signal": 9})
        handle = await driver.start_task(task)
        waiting = asyncio.create_task(driver.wait_task(handle))
        await clock.advance(9.9)
        assert not waiting.done()
        await clock.advance(0.2)
        result = await waiting
        assert (result.exit_code, result.signal) == (137, 9)
        assert result.finished_ns == handle.started_ns + 10_000_000_000

    run(scenario)


def test_start_may_block_and_fail(tmp_path: Path) -> None:
    async def scenario(driver: MockDriver, clock: FakeClock) -> None:
        config = {"start_block_for": "5s", "start_error": "no", "start_error_recoverable": True}
        starting = asyncio.create_task(driver.start_task(task_config(tmp_path, config)))
        await clock.advance(4)
        assert not starting.done()
        await clock.advance(2)
        with pytest.raises(DriverError, match="no") as raised:
            await starting
        assert raised.value.recoverable

    run(scenario)


def test_mock_stop_takes_kill_after_up_to_the_grace_period(tmp_path: Path) -> None:
    async def scenario(driver: MockDriver, clock: FakeClock) -> None:
        for attempt, (takes, ends_after_s, code) in enumerate([("3s", 3, 143), ("1h", 5, 137)]):
            task = task_config(tmp_path, {"kill_after": takes}, attempt=attempt)
            handle = await driver.start_task(task)
            stopping = asyncio.create_task(driver.stop_task(handle, signal="SIGTERM"))
            await clock.advance(ends_after_s - 0.1)
            assert not stopping.done()
            await clock.advance(0.2)
            await stopping
            assert (await driver.wait_task(handle)).exit_code == code

    run(scenario)


def test_mock_task_prints_stdout_repeat_times(tmp_path: Path) -> None:
    async def scenario(driver: MockDriver, clock: FakeClock) -> None:
        config = {
            "run_for": "1m",
            "stdout_string": "x\n",
            "stdout_repeat": 2,
            "stdout_repeat_duration": "10s",
        }
        task = task_config(tmp_path, config)
        await driver.start_task(task)
        await clock.advance(0)
        assert log_text(task) == "x\n"
        await clock.advance(25)
        assert log_text(task) == "x\nx\nx\n"

    run(scenario)


def test_mock_driver_can_be_made_unhealthy() -> None:
    async def scenario(driver: MockDriver, clock: FakeClock) -> None:
        driver.healthy = False
        assert not (await driver.fingerprint()).healthy

    run(scenario)
