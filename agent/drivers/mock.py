"""`mock_driver`: a task that does what its config says, on the given clock, without any process.

For tests and simulations. It keeps the contract of a real driver (the same conformance tests run
over it) except that its tasks end with the agent.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from agent.drivers.base import (
    DriverInfo,
    DriverNetwork,
    ExecResult,
    ExecSession,
    ExitResult,
    TaskConfig,
    TaskHandle,
    TaskStats,
)
from agent.drivers.config import decode_config, duration_s
from agent.drivers.locks import StartLocks
from agent.drivers.signals import signal_number
from orchgit.clock import Clock
from orchgit.errors import DriverError

_SIGNAL_BASE = 128


class MockConfig(msgspec.Struct, frozen=True):
    """`run_for` "" runs until stopped; `kill_after` is how long a stop takes."""

    run_for: str = ""
    exit_code: int = 0
    exit_signal: int = 0
    exit_err_msg: str = ""
    start_error: str = ""
    start_error_recoverable: bool = False
    start_block_for: str = "0s"
    kill_after: str = "0s"
    signal_error: str = ""
    stdout_string: str = ""
    stdout_repeat: int = 0
    stdout_repeat_duration: str = "0s"
    driver_ip: str = ""
    """The address that the driver says to have given to the task; "" is none."""
    driver_advertise: bool = False
    driver_port_map: dict[str, int] = {}


class MockOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's `mock_driver` plugin options."""

    enabled: bool = False


class MockDriver:
    name = "mock_driver"
    isolation = "none"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: dict[str, _MockTask] = {}
        self._starting = StartLocks()
        self.healthy = True
        """A test may take the driver away."""

    async def fingerprint(self) -> DriverInfo:
        return DriverInfo(
            detected=True,
            healthy=self.healthy,
            health_description="Healthy" if self.healthy else "made unhealthy",
            attributes={"driver.mock_driver": "1"},
        )

    async def start_task(self, task: TaskConfig) -> TaskHandle:
        config = decode_config(self.name, task.task_name, task.config, MockConfig)
        signal_number(task.kill_signal)
        async with self._starting.of(task.key):
            if task.key not in self._tasks:
                await self._clock.sleep(duration_s(config.start_block_for))
                if config.start_error:
                    raise DriverError(config.start_error, config.start_error_recoverable)
                self._tasks[task.key] = _MockTask(task, config, self._clock)
        return self._tasks[task.key].handle

    async def recover_task(self, handle: TaskHandle) -> bool:
        return handle.key in self._tasks

    async def wait_task(self, handle: TaskHandle) -> ExitResult:
        return await asyncio.shield(self._known(handle).result)

    async def stop_task(
        self, handle: TaskHandle, timeout_s: float | None = None, signal: str = ""
    ) -> None:
        number = signal_number(signal or handle.kill_signal)
        grace_s = handle.kill_timeout_s if timeout_s is None else timeout_s
        await self._known(handle).stop(number, grace_s)

    async def destroy_task(self, handle: TaskHandle) -> None:
        task = self._tasks.pop(handle.key, None)
        if task is not None:
            task.kill()

    async def signal_task(self, handle: TaskHandle, signal: str) -> None:
        task = self._known(handle)
        number = signal_number(signal)
        if task.config.signal_error:
            raise DriverError(task.config.signal_error)
        if task.result.done():
            raise DriverError(f"cannot signal {handle.key}: it has ended")
        task.signals.append(number)

    async def exec_task(
        self, handle: TaskHandle, command: list[str], timeout_s: float
    ) -> ExecResult:
        """Understands `echo WORDS` and `exit CODE`."""
        if self._known(handle).result.done():
            raise DriverError(f"cannot use task {handle.key}: it does not run")
        if command[0] == "exit":
            return ExecResult(b"", int(command[1]))
        return ExecResult((" ".join(command[1:]) + "\n").encode(), 0)

    async def exec_stream(self, handle: TaskHandle, command: list[str], tty: bool) -> ExecSession:
        raise DriverError("cannot open a session: mock_driver runs no commands")

    async def stats(self, handle: TaskHandle) -> TaskStats:
        return TaskStats()

    async def close(self) -> None:
        for task in self._tasks.values():
            task.kill()

    def _known(self, handle: TaskHandle) -> _MockTask:
        task = self._tasks.get(handle.key)
        if task is None:
            raise DriverError(f"cannot find task {handle.key}: it was never started here")
        return task


class _MockTask:
    def __init__(self, task: TaskConfig, config: MockConfig, clock: Clock) -> None:
        self.config = config
        self.signals: list[int] = []
        self._clock = clock
        network = DriverNetwork(
            ip=config.driver_ip,
            ports=config.driver_port_map,
            auto_advertise=config.driver_advertise,
        )
        self.handle = TaskHandle(
            driver=MockDriver.name,
            key=task.key,
            started_ns=clock.now_ns(),
            kill_signal=task.kill_signal,
            kill_timeout_s=task.kill_timeout_s,
            network=network if config.driver_ip else None,
        )
        self.result: asyncio.Future[ExitResult] = asyncio.get_running_loop().create_future()
        self._log = Path(task.task_dir.log_dir, f"{task.task_name}.stdout.0")
        self._running = asyncio.create_task(self._run(), name=f"mock {task.key}")

    async def _run(self) -> None:
        await self._print()
        if not self.config.run_for:
            return
        await self._clock.sleep(duration_s(self.config.run_for))
        code = self.config.exit_code
        if self.config.exit_signal:
            code = _SIGNAL_BASE + self.config.exit_signal
        self._end(code, self.config.exit_signal, self.config.exit_err_msg)

    async def _print(self) -> None:
        for number in range(self.config.stdout_repeat + 1 if self.config.stdout_string else 0):
            if number:
                await self._clock.sleep(duration_s(self.config.stdout_repeat_duration))
            with self._log.open("a") as file:
                file.write(self.config.stdout_string)

    async def stop(self, number: int, grace_s: float) -> None:
        takes_s = duration_s(self.config.kill_after)
        if not self.result.done():
            await self._clock.sleep(min(takes_s, grace_s))
        if takes_s > grace_s:
            self.kill()
        else:
            self._end(_SIGNAL_BASE + number, number)

    def kill(self) -> None:
        self._end(_SIGNAL_BASE + 9, 9)

    def _end(self, code: int, signal: int = 0, error: str = "") -> None:
        if not self.result.done():
            self.result.set_result(
                ExitResult(
                    exit_code=code, signal=signal, error=error, finished_ns=self._clock.now_ns()
                )
            )
        self._running.cancel()
