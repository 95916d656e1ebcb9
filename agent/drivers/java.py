"""`java`: a class or a jar file in the root file system of `exec`."""

from __future__ import annotations

import asyncio
import re
import shutil

import msgspec

from agent.drivers import oci
from agent.drivers.base import DriverInfo, TaskConfig
from agent.drivers.capabilities import DEFAULT_CAPABILITIES
from agent.drivers.config import decode_config
from agent.drivers.exec import ExecDriver, ExecOptions
from orchgit.child import DEVNULL, PIPE, STDOUT, start_child
from orchgit.errors import DriverError

_PROBE_TIMEOUT_S = 10.0


class JavaConfig(msgspec.Struct, frozen=True):
    """The `config` block: one of `class` and `jar_path`."""

    class_name: str = msgspec.field(default="", name="class")
    class_path: str = ""
    jar_path: str = ""
    jvm_options: list[str] = []
    args: list[str] = []
    work_dir: str = ""
    pid_mode: oci.Mode | None = None
    ipc_mode: oci.Mode | None = None
    cap_add: list[str] = []
    cap_drop: list[str] = []


class JavaOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's `java` plugin options; they are those of `exec`."""

    enabled: bool = True
    denied_users: tuple[str, ...] = ("root",)
    denied_host_uids: str = ""
    denied_host_gids: str = ""
    allow_caps: tuple[str, ...] = DEFAULT_CAPABILITIES
    default_pid_mode: oci.Mode = "private"
    default_ipc_mode: oci.Mode = "private"
    no_pivot_root: bool = False
    chroot_env: dict[str, str] = msgspec.field(default_factory=lambda: dict(oci.HOST_PATHS))

    def for_exec(self) -> ExecOptions:
        return msgspec.convert(msgspec.to_builtins(self), ExecOptions)


class JavaVersion(msgspec.Struct, frozen=True):
    """What `java -version` says; "" where it says something else."""

    version: str = ""
    runtime: str = ""
    vm: str = ""


class JavaDriver(ExecDriver):
    name = "java"

    async def fingerprint(self) -> DriverInfo:
        path = shutil.which("java")
        if path is None:
            return DriverInfo(health_description="java is not on PATH")
        found = await super().fingerprint()
        if not found.healthy:
            return found
        try:
            told = parse_version(await _ask_version(path))
        except DriverError as error:
            return DriverInfo(detected=True, health_description=str(error))
        attributes = {
            "driver.java": "1",
            "driver.java.version": told.version,
            "driver.java.runtime": told.runtime,
            "driver.java.vm": told.vm,
        }
        return msgspec.structs.replace(found, attributes=attributes)

    def _isolation(self, task: TaskConfig) -> oci.Isolation:
        config = decode_config(self.name, task.task_name, task.config, JavaConfig)
        path = shutil.which("java")
        if path is None:
            raise DriverError(f"cannot start task {task.task_name}: java is not on PATH")
        return oci.Isolation(
            command=path,
            args=java_arguments(config, task.task_name),
            work_dir=config.work_dir,
            pid_mode=config.pid_mode,
            ipc_mode=config.ipc_mode,
            cap_add=config.cap_add,
            cap_drop=config.cap_drop,
        )


def java_arguments(config: JavaConfig, task: str) -> list[str]:
    """The arguments of `java`; DriverError unless there is one program to start."""
    if bool(config.class_name) == bool(config.jar_path):
        given = "both" if config.class_name else "neither"
        raise DriverError(
            f'cannot use the java config of task {task}: give "class" or "jar_path", not {given}'
        )
    arguments = list(config.jvm_options)
    if config.class_path:
        arguments += ["-cp", config.class_path]
    arguments += [config.class_name] if config.class_name else ["-jar", config.jar_path]
    return [*arguments, *config.args]


def parse_version(text: str) -> JavaVersion:
    """The three lines of `java -version`."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for index, line in enumerate(lines):
        found = re.search(r'version "([^"]+)"', line)
        if found:
            runtime, vm = (*lines[index + 1 : index + 3], "", "")[:2]
            return JavaVersion(found[1], runtime, vm)
    return JavaVersion()


async def _ask_version(path: str) -> str:
    child = await start_child(path, "-version", stdin=DEVNULL, stdout=PIPE, stderr=STDOUT)
    assert child.stdout is not None
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            text = await child.stdout.read()
            code = await child.wait()
    except TimeoutError:
        raise DriverError(
            f"cannot ask {path} for its version: no answer in {_PROBE_TIMEOUT_S:g} s"
        ) from None
    finally:
        child.kill()
        child.close()
    if code:
        raise DriverError(f"cannot ask {path} for its version: it ended with {code}")
    return text.decode("utf-8", "replace")
