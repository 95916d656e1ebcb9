"""The drivers, each with how to make it do what a conformance test needs."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from agent.drivers import cgroups
from agent.drivers.base import Driver, TaskConfig, TaskDir
from agent.drivers.docker.driver import DockerDriver
from agent.drivers.docker.options import DockerOptions
from agent.drivers.exec import ExecDriver
from agent.drivers.mock import MockDriver
from agent.drivers.podman.config import PodmanOptions
from agent.drivers.podman.driver import PodmanDriver
from agent.drivers.raw_exec import RawExecDriver, RawExecOptions
from agent.supervisor.client import SupervisorClient
from orchgit.clock import SystemClock
from tests.support import docker_engine, podman_engine

_RUN_UNTIL_STOPPED = "trap 'exit 7' INT TERM; echo ready; while :; do sleep 0.02; done"
_IGNORE_SIGNALS = "trap '' INT TERM; echo ready; while :; do sleep 0.02; done"


class Rig(Protocol):
    """One driver under test; `survives`: whether its tasks outlive the agent."""

    name: str
    survives: bool

    def open(self, directory: Path) -> AsyncIterator[Driver]: ...

    def exits(self, code: int) -> dict[str, object]: ...

    def prints(self, text: str) -> dict[str, object]: ...

    def runs(self) -> dict[str, object]: ...

    def ignores_signals(self) -> dict[str, object]: ...

    def cannot_start(self) -> dict[str, object]: ...


class ShellRig:
    """For drivers that run real programs."""

    survives = True

    def __init__(self, name: str, shell: dict[str, object]) -> None:
        self.name = name
        self._shell = shell

    def script(self, text: str) -> dict[str, object]:
        return {**self._shell, "args": ["-c", text]}

    def exits(self, code: int) -> dict[str, object]:
        return self.script(f"exit {code}")

    def prints(self, text: str) -> dict[str, object]:
        return self.script(f"echo '{text}'")

    def runs(self) -> dict[str, object]:
        return self.script(_RUN_UNTIL_STOPPED)

    def ignores_signals(self) -> dict[str, object]:
        return self.script(_IGNORE_SIGNALS)

    def cannot_start(self) -> dict[str, object]:
        return {**self._shell, "command": "/no/such/program"}

    @asynccontextmanager
    async def open(self, directory: Path) -> AsyncIterator[Driver]:
        """A driver as one life of the agent has it; what it starts goes on afterwards."""
        supervisor = SupervisorClient(directory / "supervisor")
        layout = cgroups.detect()
        drivers: dict[str, Driver] = {
            "raw_exec": RawExecDriver(supervisor, layout, RawExecOptions(enabled=True)),
            "exec": ExecDriver(supervisor, layout, directory),
        }
        try:
            yield drivers[self.name]
        finally:
            await drivers[self.name].close()
            await supervisor.close()


class DockerRig(ShellRig):
    def __init__(self) -> None:
        image = {"image": docker_engine.IMAGE, "command": "/bin/sh", "network_mode": "host"}
        super().__init__("docker", image)

    @asynccontextmanager
    async def open(self, directory: Path) -> AsyncIterator[Driver]:
        options = DockerOptions(endpoint=docker_engine.engine().endpoint)
        driver = DockerDriver(directory, options, SystemClock())
        try:
            yield driver
        finally:
            await driver.close()


class PodmanRig(ShellRig):
    def __init__(self) -> None:
        image = {"image": podman_engine.IMAGE, "command": "/bin/sh", "network_mode": "host"}
        super().__init__("podman", image)

    @asynccontextmanager
    async def open(self, directory: Path) -> AsyncIterator[Driver]:
        options = PodmanOptions(socket_path=podman_engine.socket())
        driver = PodmanDriver(directory, options, SystemClock())
        try:
            yield driver
        finally:
            await driver.close()


class MockRig:
    name = "mock_driver"
    survives = False

    def exits(self, code: int) -> dict[str, object]:
        return {"run_for": "1ms", "exit_code": code}

    def prints(self, text: str) -> dict[str, object]:
        return {"run_for": "1ms", "stdout_string": f"{text}\n"}

    def runs(self) -> dict[str, object]:
        return {"stdout_string": "ready\n"}

    def ignores_signals(self) -> dict[str, object]:
        return {"kill_after": "1h", "stdout_string": "ready\n"}

    def cannot_start(self) -> dict[str, object]:
        return {"start_error": "cannot start: told not to"}

    @asynccontextmanager
    async def open(self, directory: Path) -> AsyncIterator[Driver]:
        driver = MockDriver(SystemClock())
        try:
            yield driver
        finally:
            await driver.close()


def shell_rig(name: str) -> ShellRig:
    containers = {"docker": DockerRig, "podman": PodmanRig}
    return containers[name]() if name in containers else ShellRig(name, {"command": "/bin/sh"})


def rig(name: str) -> Rig:
    return MockRig() if name == "mock_driver" else shell_rig(name)


def exec_works() -> bool:
    return os.geteuid() == 0 and bool(shutil.which("crun") or shutil.which("runc"))


def task_config(
    directory: Path,
    config: dict[str, object],
    *,
    alloc_id: str = "6b6f2a54-0000-4000-8000-000000000001",
    **fields: object,
) -> TaskConfig:
    """A task named `web` with its directories made, as the task directory hook makes them."""
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
        os.chmod(path, 0o777)
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
