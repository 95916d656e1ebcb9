"""The drivers, each with how to make it do what a conformance test needs."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent.drivers import cgroups
from agent.drivers.base import Driver
from agent.drivers.conformance import ConformanceRig, log_text, task_config
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

__all__ = ["log_text", "task_config"]

_RUN_UNTIL_STOPPED = "trap 'exit 7' INT TERM; echo ready; while :; do sleep 0.02; done"
_IGNORE_SIGNALS = "trap '' INT TERM; echo ready; while :; do sleep 0.02; done"


class ShellRig:
    """For drivers that run real programs."""

    survives = True
    wrong_key = ("comand", "command")
    failing_command = ["/bin/sh", "-c", "exit 5"]

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
    wrong_key = ("exit_cod", "exit_code")
    failing_command = ["exit", "5"]

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


def rig(name: str) -> ConformanceRig:
    return MockRig() if name == "mock_driver" else shell_rig(name)


def exec_works() -> bool:
    return os.geteuid() == 0 and bool(shutil.which("crun") or shutil.which("runc"))
