"""What the task runner relies on, as tests that any driver can be put through.

A package with a driver has a test module with a subclass:

    class TestMine(DriverConformance):
        rig = MyRig()

where `MyRig` is a `ConformanceRig`. pytest runs the rest; each test needs about a second.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from agent.drivers.base import Driver, TaskConfig, TaskDir, TaskHandle
from orchgit.errors import DriverError

_TIMEOUT_S = 60.0
_READY_TIMEOUT_S = 20.0
_POLL_S = 0.02
_KILLED = 137


class ConformanceRig(Protocol):
    """A driver under test, and `config` blocks by which its tasks do what a test needs."""

    name: str
    survives: bool
    """Whether tasks outlive the agent."""
    wrong_key: tuple[str, str]
    """A misspelt key of the config, and the one that is meant."""
    failing_command: list[str]
    """A command that ends with code 5 where the driver runs it beside a task."""

    def open(self, directory: Path) -> AbstractAsyncContextManager[Driver]:
        """The driver as one life of the agent has it. What it starts goes on afterwards."""

    def exits(self, code: int) -> dict[str, object]:
        """A task that ends at once with this code."""

    def prints(self, text: str) -> dict[str, object]:
        """A task that prints a line and ends well."""

    def runs(self) -> dict[str, object]:
        """A task that prints "ready" and runs on; SIGTERM ends it with code 7."""

    def ignores_signals(self) -> dict[str, object]:
        """A task that prints "ready" and ends only when it is killed."""

    def cannot_start(self) -> dict[str, object]:
        """A task that the driver cannot start."""


def task_config(
    directory: Path,
    config: dict[str, object],
    *,
    alloc_id: str = "",
    **fields: object,
) -> TaskConfig:
    """Returns a task named `web` with its directories made, as the agent makes them. It is of a new
    allocation unless `alloc_id` names one: what other processes test has other names."""
    alloc_id = alloc_id or f"{secrets.token_hex(4)}-0000-4000-8000-000000000001"
    base = directory / "allocs" / alloc_id
    paths = TaskDir(
        alloc_dir=str(base / "alloc"),
        task_dir=str(base / "web"),
        local_dir=str(base / "web" / "local"),
        secrets_dir=str(base / "web" / "secrets"),
        log_dir=str(base / "alloc" / "logs"),
    )
    for path in (*msgspec.structs.astuple(paths), str(base / "web" / "tmp")):
        os.makedirs(path, exist_ok=True)
        os.chmod(path, 0o777)  # noqa: S103 -- as the agent makes them: the task's user is any
    given = {"attempt": 0, "env": {"PATH": "/usr/bin:/bin"}, "kill_timeout_s": 5.0, **fields}
    return TaskConfig(
        alloc_id=alloc_id,
        task_name="web",
        task_dir=paths,
        config=config,
        **given,  # type: ignore[arg-type]
    )


def log_text(task: TaskConfig, stream: str = "stdout") -> str:
    """All of a task's output so far, in order."""
    files = Path(task.task_dir.log_dir).glob(f"web.{stream}.*")
    ordered = sorted(files, key=lambda path: int(path.suffix[1:]))
    return "".join(path.read_text() for path in ordered)


class DriverConformance:
    """The tests; `rig` is set by the subclass."""

    rig: ConformanceRig

    def test_exit_code_is_reported_to_every_waiter(self, tmp_path: Path) -> None:
        async def scenario(driver: Driver) -> None:
            for code in (0, 3):
                handle = await driver.start_task(task_config(tmp_path, self.rig.exits(code)))
                results = await asyncio.gather(*(driver.wait_task(handle) for _ in range(3)))
                results.append(await driver.wait_task(handle))
                assert [result.exit_code for result in results] == [code] * 4
                assert results[0].successful == (code == 0)
                assert results[0].finished_ns >= handle.started_ns - 2_000_000_000
                await driver.destroy_task(handle)

        self._run(tmp_path, scenario)

    def test_healthy_driver_is_fingerprinted_as_healthy(self, tmp_path: Path) -> None:
        async def scenario(driver: Driver) -> None:
            info = await driver.fingerprint()
            assert (info.detected, info.healthy) == (True, True), info.health_description
            assert (info.attributes or {})[f"driver.{self.rig.name}"] == "1"

        self._run(tmp_path, scenario)

    def test_repeated_start_starts_no_second_task(self, tmp_path: Path) -> None:
        async def scenario(driver: Driver) -> None:
            task = task_config(tmp_path, self.rig.prints("once"))
            first, second = await asyncio.gather(driver.start_task(task), driver.start_task(task))
            await driver.wait_task(first)
            third = await driver.start_task(task)
            assert {first.key, second.key, third.key} == {task.key}
            assert log_text(task) == "once\n"
            assert (await driver.wait_task(third)).successful
            await driver.destroy_task(first)

        self._run(tmp_path, scenario)

    def test_stopped_task_ends_within_its_kill_timeout(self, tmp_path: Path) -> None:
        async def scenario(driver: Driver) -> None:
            task = task_config(tmp_path, self.rig.runs(), kill_timeout_s=30.0)
            handle = await driver.start_task(task)
            await _until_ready(task)
            await driver.stop_task(handle, signal="SIGTERM")
            assert (await driver.wait_task(handle)).exit_code in (7, 143)
            await driver.stop_task(handle)  # once more is no error
            await driver.destroy_task(handle)

        self._run(tmp_path, scenario)

    def test_task_that_ignores_the_signal_is_killed(self, tmp_path: Path) -> None:
        async def scenario(driver: Driver) -> None:
            task = task_config(tmp_path, self.rig.ignores_signals())
            handle = await driver.start_task(task)
            await _until_ready(task)
            await driver.stop_task(handle, timeout_s=0.1)
            assert (await driver.wait_task(handle)).exit_code == _KILLED
            await driver.destroy_task(handle)

        self._run(tmp_path, scenario)

    def test_destroyed_task_ends_and_is_forgotten(self, tmp_path: Path) -> None:
        async def scenario(driver: Driver) -> None:
            handle = await driver.start_task(task_config(tmp_path, self.rig.ignores_signals()))
            assert await driver.recover_task(handle)
            await driver.destroy_task(handle)
            assert not await driver.recover_task(handle)
            await driver.destroy_task(handle)
            assert (await _error_of(driver.wait_task(handle))).startswith("cannot")

        self._run(tmp_path, scenario)

    def test_task_whose_handle_was_lost_is_destroyed_by_its_key(self, tmp_path: Path) -> None:
        async def scenario(driver: Driver) -> None:
            task = task_config(tmp_path, self.rig.runs())
            handle = await driver.start_task(task)
            lost = TaskHandle(driver=self.rig.name, key=task.key, started_ns=0)
            await driver.destroy_task(lost)
            assert not await driver.recover_task(handle)

        self._run(tmp_path, scenario)

    def test_unknown_key_is_refused_naming_the_nearest(self, tmp_path: Path) -> None:
        async def scenario(driver: Driver) -> None:
            wrong, meant = self.rig.wrong_key
            task = task_config(tmp_path, {**self.rig.exits(0), wrong: "x"})
            error = await _error_of(driver.start_task(task))
            assert f'"{wrong}"' in error
            assert f'"{meant}"' in error

        self._run(tmp_path, scenario)

    def test_failed_start_leaves_no_task(self, tmp_path: Path) -> None:
        async def scenario(driver: Driver) -> None:
            task = task_config(tmp_path, self.rig.cannot_start())
            for _ in range(2):
                said = await _error_of(driver.start_task(task))
                assert "cannot" in said or "failed to" in said
            again = task_config(tmp_path, self.rig.exits(0), alloc_id=task.alloc_id, attempt=1)
            handle = await driver.start_task(again)
            assert (await driver.wait_task(handle)).successful
            await driver.destroy_task(handle)

        self._run(tmp_path, scenario)

    def test_signal_needs_a_known_name_and_a_running_task(self, tmp_path: Path) -> None:
        async def scenario(driver: Driver) -> None:
            unknown = task_config(tmp_path, self.rig.runs(), kill_signal="SIGNONE")
            assert "SIGNONE" in await _error_of(driver.start_task(unknown))
            handle = await driver.start_task(task_config(tmp_path, self.rig.exits(0)))
            await driver.wait_task(handle)
            assert "cannot signal" in await _error_of(driver.signal_task(handle, "SIGHUP"))
            await driver.destroy_task(handle)

        self._run(tmp_path, scenario)

    def test_exec_runs_a_command_beside_the_task(self, tmp_path: Path) -> None:
        async def scenario(driver: Driver) -> None:
            task = task_config(tmp_path, self.rig.runs())
            handle = await driver.start_task(task)
            await _until_ready(task)
            said = await driver.exec_task(handle, ["echo", "hello", "there"], 20)
            assert (said.output, said.exit_code) == (b"hello there\n", 0)
            failed = await driver.exec_task(handle, self.rig.failing_command, 20)
            assert failed.exit_code == 5
            await driver.destroy_task(handle)

        self._run(tmp_path, scenario)

    def test_new_agent_recovers_the_task(self, tmp_path: Path) -> None:
        async def body() -> None:
            task = task_config(tmp_path, self.rig.runs())
            async with self.rig.open(tmp_path) as driver:
                handle = await driver.start_task(task)
                await _until_ready(task)
            async with self.rig.open(tmp_path) as driver, asyncio.timeout(_TIMEOUT_S):
                assert await driver.recover_task(handle) == self.rig.survives
                if self.rig.survives:
                    assert (await driver.start_task(task)).pid == handle.pid
                    await driver.stop_task(handle, signal="SIGTERM")
                    assert (await driver.wait_task(handle)).exit_code == 7
                    assert log_text(task) == "ready\n"
                await driver.destroy_task(handle)

        asyncio.run(body())

    def _run(self, directory: Path, scenario: Callable[[Driver], Awaitable[None]]) -> None:
        async def body() -> None:
            async with self.rig.open(directory) as driver, asyncio.timeout(_TIMEOUT_S):
                await scenario(driver)

        asyncio.run(body())


async def _error_of(call: Awaitable[object]) -> str:
    """The text of the DriverError that the call must end with."""
    try:
        await call
    except DriverError as error:
        return str(error)
    raise AssertionError("the driver raises no DriverError")


async def _until_ready(task: TaskConfig) -> None:
    async with asyncio.timeout(_READY_TIMEOUT_S):
        while "ready" not in log_text(task):
            await asyncio.sleep(_POLL_S)
