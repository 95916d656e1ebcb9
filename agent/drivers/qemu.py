"""`qemu`: a virtual machine from an image of a disk, as a process that the supervisor holds."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
from pathlib import Path

import msgspec

from agent.drivers import cgroups
from agent.drivers.base import (
    DriverInfo,
    ExecResult,
    ExecSession,
    TaskConfig,
    TaskHandle,
    TaskStats,
)
from agent.drivers.config import decode_config
from agent.drivers.signals import signal_number
from agent.drivers.supervised import SupervisedDriver, group_name, log_streams
from agent.drivers.users import resolve_user
from agent.supervisor.client import SupervisorClient
from agent.supervisor.protocol import TaskSpec
from orchgit.child import DEVNULL, PIPE, start_child
from orchgit.errors import DriverError

_EMULATOR = "qemu-system-x86_64"
_DRIVE_INTERFACES = ("none", "ide", "scsi", "sd", "mtd", "floppy", "pflash", "virtio")
_PROBE_TIMEOUT_S = 10.0
_MONITOR_TIMEOUT_S = 5.0
_MIN_MEMORY_MB = 128
_RUN_DIR = "/run/orchgit"


class QemuConfig(msgspec.Struct, frozen=True):
    """The `config` block."""

    image_path: str
    emulator: str = _EMULATOR
    machine_type: str = "pc"
    accelerator: str = "tcg"
    drive_interface: str = "ide"
    port_map: dict[str, int] = {}
    """Port of the machine by the label of the group's port."""
    args: list[str] = []
    graceful_shutdown: bool = False
    """Whether a stop presses the machine's power button before the kill."""
    guest_agent: bool = False
    """Whether the machine has a channel of the guest agent, `qa.sock` in the task's directory."""


class QemuOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's `qemu` plugin options."""

    enabled: bool = True
    image_paths: list[str] = []
    """Directories with images beside those of the allocation."""
    args_allowlist: list[str] = []
    """The options of the emulator that `args` may have; none: any."""
    emulators_allowlist: list[str] = []
    """The programs that `emulator` may name; none: only the usual one."""


_DEFAULT_OPTIONS = QemuOptions()


class QemuDriver(SupervisedDriver):
    name = "qemu"
    isolation = "none"

    def __init__(
        self,
        supervisor: SupervisorClient,
        layout: cgroups.CgroupLayout,
        data_dir: Path,
        options: QemuOptions = _DEFAULT_OPTIONS,
    ) -> None:
        super().__init__(supervisor)
        self._layout = layout
        self._options = options
        node = hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()[:12]
        root = Path(_RUN_DIR) if os.geteuid() == 0 else data_dir
        self._sockets = root / node / "qemu"

    async def fingerprint(self) -> DriverInfo:
        path = shutil.which(_EMULATOR)
        if path is None:
            return DriverInfo(health_description=f"{_EMULATOR} is not on PATH")
        try:
            version = await _version(path)
        except DriverError as error:
            return DriverInfo(detected=True, health_description=str(error))
        return DriverInfo(
            detected=True,
            healthy=True,
            health_description="Healthy",
            attributes={"driver.qemu": "1", "driver.qemu.version": version},
        )

    async def start_task(self, task: TaskConfig) -> TaskHandle:
        config = decode_config(self.name, task.task_name, task.config, QemuConfig)
        signal_number(task.kill_signal)
        monitor = self._monitor(task.key) if config.graceful_shutdown else Path()
        if config.graceful_shutdown:
            self._sockets.mkdir(parents=True, exist_ok=True, mode=0o700)
        user = resolve_user(task.user)
        spec = TaskSpec(
            key=task.key,
            argv=machine_command(task, config, self._options, monitor),
            cwd=task.task_dir.task_dir,
            env=task.env,
            uid=user.uid if user else None,
            gid=user.gid if user else None,
            groups=user.groups if user else [],
            streams=log_streams(task),
            group=self._layout.with_cores(
                self._layout.tracking(group_name(task.key)), group_name(task.key), task.resources
            ),
            network_namespace=task.network.namespace if task.network else "",
        )
        state = {"monitor": str(monitor) if config.graceful_shutdown else ""}
        return await self._start(task, spec, state)

    async def stop_task(
        self, handle: TaskHandle, timeout_s: float | None = None, signal: str = ""
    ) -> None:
        """A machine that is shut down ends by itself, or is killed when the time is over."""
        grace_s = handle.kill_timeout_s if timeout_s is None else timeout_s
        monitor = handle.state.get("monitor", "")
        if monitor and grace_s > 0 and await _press_power_button(monitor):
            try:
                async with asyncio.timeout(grace_s):
                    await self.wait_task(handle)
                return
            except TimeoutError:
                grace_s = 0
        # QEMU ends at once by SIGTERM; the machine is not asked.
        await super().stop_task(handle, grace_s, signal or "SIGTERM")

    async def destroy_task(self, handle: TaskHandle) -> None:
        await super().destroy_task(handle)
        self._monitor(handle.key).unlink(missing_ok=True)

    async def signal_task(self, handle: TaskHandle, signal: str) -> None:
        signal_number(signal)
        raise DriverError(
            f"cannot signal {handle.key}: it is a virtual machine; log in to it, or stop the task"
        )

    async def exec_task(
        self, handle: TaskHandle, command: list[str], timeout_s: float
    ) -> ExecResult:
        raise DriverError(f"cannot run {command[0]} in {handle.key}: it is a virtual machine")

    async def exec_stream(self, handle: TaskHandle, command: list[str], tty: bool) -> ExecSession:
        raise DriverError(f"cannot run {command[0]} in {handle.key}: it is a virtual machine")

    async def stats(self, handle: TaskHandle) -> TaskStats:
        group = self._layout.tracking(group_name(handle.key))
        return cgroups.process_stats(handle.pid, group)

    def _monitor(self, key: str) -> Path:
        """A short path: that of a socket has at most 107 bytes."""
        return self._sockets / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.sock"


def machine_command(
    task: TaskConfig, config: QemuConfig, options: QemuOptions, monitor: Path
) -> list[str]:
    """The command that runs the machine; DriverError for what the node does not allow.

    `monitor` is the path of its monitor's socket; `Path()` is none.
    """
    if task.resources.memory_mb < _MIN_MEMORY_MB:
        raise DriverError(
            f"cannot start task {task.task_name}: a virtual machine needs {_MIN_MEMORY_MB} MB"
        )
    if config.drive_interface not in _DRIVE_INTERFACES:
        raise DriverError(
            f'cannot use drive_interface "{config.drive_interface}": use one of '
            f"{', '.join(_DRIVE_INTERFACES)}"
        )
    _check_arguments(config.args, options.args_allowlist)
    cores = len(task.resources.reserved_cores)
    command = [
        _emulator(config.emulator, options),
        *("-machine", f"type={config.machine_type},accel={config.accelerator}"),
        *("-name", f"{task.task_name}-{task.alloc_id[:8]}"),
        *("-m", f"{task.resources.memory_mb}M"),
        *("-drive", f"file={_image(task, config, options)},if={config.drive_interface}"),
        "-nographic",
    ]
    if cores:
        command += ["-smp", str(cores)]
    if config.accelerator == "kvm" and "-cpu" not in config.args:
        command += ["-cpu", "host"]
    if monitor != Path():
        command += ["-monitor", f"unix:{monitor},server=on,wait=off"]
    if config.guest_agent:  # relative to the task's directory: the path of a socket is short
        command += [
            *("-chardev", "socket,path=qa.sock,server=on,wait=off,id=qga0"),
            *("-device", "virtio-serial"),
            *("-device", "virtserialport,chardev=qga0,name=org.qemu.guest_agent.0"),
        ]
    if config.port_map:
        forwarded = ",".join(_forwarded(task, config.port_map))
        command += ["-netdev", f"user,id=user.0,{forwarded}", "-device", "virtio-net,netdev=user.0"]
    return [*command, *config.args]


def _forwarded(task: TaskConfig, port_map: dict[str, int]) -> list[str]:
    known = {port.label: port for port in task.ports}
    rules = []
    for label, inside in port_map.items():
        port = known.get(label)
        if port is None:
            raise DriverError(
                f'cannot forward port "{label}" of task {task.task_name}: the group\'s network has '
                "no such port"
            )
        rules += [
            f"hostfwd={protocol}:{port.host_ip}:{port.host_port}-:{inside}"
            for protocol in ("tcp", "udp")
        ]
    return rules


def _emulator(name: str, options: QemuOptions) -> str:
    allowed = options.emulators_allowlist or [_EMULATOR]
    if name not in allowed:
        raise DriverError(
            f'cannot use emulator "{name}": the agent\'s config allows {", ".join(allowed)} in '
            "qemu.emulators_allowlist"
        )
    path = shutil.which(name)
    if path is None:
        raise DriverError(f'cannot use emulator "{name}": it is not on PATH')
    return path


def _image(task: TaskConfig, config: QemuConfig, options: QemuOptions) -> str:
    """An image of the allocation, or of a directory that the node's owner names."""
    path = os.path.realpath(os.path.join(task.task_dir.task_dir, config.image_path))
    allowed = [os.path.dirname(task.task_dir.task_dir), *options.image_paths]
    roots = [os.path.realpath(root) for root in allowed]
    if not any(os.path.commonpath([path, root]) == root for root in roots):
        raise DriverError(
            f'cannot use image "{config.image_path}": it lies neither in the allocation\'s '
            "directory nor in one of qemu.image_paths"
        )
    if "," in path:
        raise DriverError(f'cannot use image "{config.image_path}": its path has a comma')
    if not os.path.isfile(path):
        raise DriverError(f'cannot use image "{config.image_path}": there is no such file')
    return path


def _check_arguments(given: list[str], allowed: list[str]) -> None:
    for text in given:
        if (
            allowed
            and text.startswith("-")
            and text.lstrip("-") not in {one.lstrip("-") for one in allowed}
        ):
            raise DriverError(
                f'cannot use "{text}" in args: the agent\'s config allows {", ".join(allowed)} in '
                "qemu.args_allowlist"
            )


async def _press_power_button(monitor: str) -> bool:
    """False where the monitor does not take the command: the machine has ended, or hangs."""
    try:
        async with asyncio.timeout(_MONITOR_TIMEOUT_S):
            reader, writer = await asyncio.open_unix_connection(monitor)
            try:
                await reader.readuntil(b"(qemu)")
                writer.write(b"system_powerdown\n")
                await writer.drain()
                await reader.readuntil(b"(qemu)")
            finally:
                writer.close()
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return False
    return True


async def _version(path: str) -> str:
    child = await start_child(path, "--version", stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL)
    assert child.stdout is not None
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            text = (await child.stdout.read()).decode("utf-8", "replace")
    except TimeoutError:
        raise DriverError(f"cannot ask {path} for its version: it does not answer") from None
    finally:
        child.kill()
        child.close()
    found = re.search(r"version ([\d.]+)", text)
    if not found:
        raise DriverError(f"cannot read the version of {path}: it says {text[:60]!r}")
    return found[1]
