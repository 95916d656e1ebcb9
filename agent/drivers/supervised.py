"""What raw_exec and exec share: the supervisor holds their processes."""

from __future__ import annotations

import hashlib
import re

from msgspec.structs import fields

from agent.drivers.base import ExitResult, TaskConfig, TaskHandle
from agent.drivers.signals import signal_number
from agent.supervisor.client import SupervisorClient
from agent.supervisor.protocol import LogStream, TaskReport, TaskSpec
from orchgit.errors import DriverError

_MIB = 1 << 20
_MAX_NAME = 128
_ID_LENGTH = 36


class SupervisedDriver:
    """The half of `base.Driver` that only talks to the supervisor."""

    name = ""

    def __init__(self, supervisor: SupervisorClient) -> None:
        self._supervisor = supervisor

    async def _start(self, task: TaskConfig, spec: TaskSpec, state: dict[str, str]) -> TaskHandle:
        report = await self._supervisor.start(spec)
        return TaskHandle(
            driver=self.name,
            key=task.key,
            started_ns=report.started_ns,
            pid=report.pid,
            kill_signal=task.kill_signal,
            kill_timeout_s=task.kill_timeout_s,
            state=state,
        )

    async def recover_task(self, handle: TaskHandle) -> bool:
        return await self._supervisor.status(handle.key) is not None

    async def wait_task(self, handle: TaskHandle) -> ExitResult:
        report = await self._supervisor.wait(handle.key)
        return ExitResult(
            **{field.name: getattr(report, field.name) for field in fields(ExitResult)}
        )

    async def stop_task(
        self, handle: TaskHandle, timeout_s: float | None = None, signal: str = ""
    ) -> None:
        number = signal_number(signal or handle.kill_signal)
        grace_s = handle.kill_timeout_s if timeout_s is None else timeout_s
        await self._supervisor.stop(handle.key, number, grace_s)
        await self._supervisor.wait(handle.key)

    async def signal_task(self, handle: TaskHandle, signal: str) -> None:
        await self._supervisor.signal(handle.key, signal_number(signal))

    async def destroy_task(self, handle: TaskHandle) -> None:
        report = await self._supervisor.status(handle.key)
        if report is None:
            return
        if not report.ended:
            await self._supervisor.stop(handle.key, signal_number("SIGKILL"), 0)
            await self._supervisor.wait(handle.key)
        await self._supervisor.ack(handle.key)

    async def close(self) -> None:
        """The supervisor's client belongs to the agent."""

    async def _running(self, handle: TaskHandle) -> TaskReport:
        report = await self._supervisor.status(handle.key)
        if report is None or report.ended:
            raise DriverError(f"cannot use task {handle.key}: it does not run")
        return report


def group_name(key: str) -> str:
    """The attempt's name where only plain characters may be: control groups, containers."""
    plain = re.sub(r"[^A-Za-z0-9.-]", "_", key)
    if plain == key.replace("/", "_") and len(plain) < _MAX_NAME:
        return plain
    return f"{plain[:_ID_LENGTH]}_{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def log_streams(task: TaskConfig) -> list[LogStream]:
    """`<task>.stdout.N` and `<task>.stderr.N` in the allocation's log directory."""
    if task.logs.disabled or task.logs.enabled is False:
        return []
    max_bytes = task.logs.max_file_size_mb * _MIB
    return [
        LogStream(
            task.task_dir.log_dir, f"{task.task_name}.{stream}", task.logs.max_files, max_bytes
        )
        for stream in ("stdout", "stderr")
    ]
