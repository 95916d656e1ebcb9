"""`exec`: a process in its own mount, pid and ipc namespaces, with limits on memory and processor.

An OCI runtime starts it and leaves; the supervisor, being its subreaper, then is the parent, so the
container outlives the agent like any other task. Bundles lie under /run: they hold the task's
environment, which must not survive a restart of the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec

from agent.drivers import oci
from agent.drivers.base import DriverInfo, ExecResult, TaskConfig, TaskHandle, TaskStats
from agent.drivers.capabilities import DEFAULT_CAPABILITIES, effective_capabilities
from agent.drivers.cgroups import CgroupLayout, oci_resources, process_stats
from agent.drivers.config import decode_config
from agent.drivers.launch_errors import not_found_below
from agent.drivers.locks import StartLocks
from agent.drivers.options import check_ids, check_name
from agent.drivers.programs import find_in_root
from agent.drivers.runtimes import RuntimeProbe, find_runtime, runtime_command
from agent.drivers.sessions import TERMINAL, Command, StreamSession, open_session, run_command
from agent.drivers.signals import signal_number
from agent.drivers.supervised import SupervisedDriver, group_name, log_streams
from agent.drivers.users import DEFAULT_CHROOT_USER, UserIds, host_user
from agent.supervisor.client import SupervisorClient
from agent.supervisor.protocol import TaskSpec
from orchgit.child import DEVNULL, start_child
from orchgit.errors import DriverError

_ROOT = "root"
_NOT_FOUND = re.compile(r"no such file or directory|executable file not found", re.IGNORECASE)
"""What runtimes say of a program that is not in the container."""
_RUN_DIR = "/run/orchgit"
_MOST_COMMANDS = 64
"""How many commands of a task are on disk: each is read once, as it starts."""
_WITHOUT_LIMITS = "Healthy, without limits: the agent does not run as root"


class ExecOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's `exec` plugin options."""

    enabled: bool = True
    denied_users: tuple[str, ...] = (_ROOT,)
    denied_host_uids: str = ""
    denied_host_gids: str = ""
    allow_caps: tuple[str, ...] = DEFAULT_CAPABILITIES
    default_pid_mode: oci.Mode = "private"
    default_ipc_mode: oci.Mode = "private"
    no_pivot_root: bool = False
    """For a root file system that the kernel cannot turn, as that of an initial ramdisk."""
    chroot_env: dict[str, str] = msgspec.field(default_factory=lambda: dict(oci.HOST_PATHS))
    """What of the host a task sees, and where; wins over `client.chroot_env`."""


_DEFAULT_OPTIONS = ExecOptions()


class ExecDriver(SupervisedDriver):
    name = "exec"
    isolation = "chroot"

    def __init__(
        self,
        supervisor: SupervisorClient,
        layout: CgroupLayout,
        data_dir: Path,
        options: ExecOptions = _DEFAULT_OPTIONS,
    ) -> None:
        super().__init__(supervisor)
        self._layout = layout
        self._starting = StartLocks()
        self._options = options
        node = hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()[:12]
        self._rootless = os.geteuid() != 0
        # What is there must not survive a restart of the machine.
        run_dir = os.environ.get("XDG_RUNTIME_DIR") or data_dir / "run"
        self._run_dir = Path(run_dir if self._rootless else _RUN_DIR, node)
        self._probe: asyncio.Task[RuntimeProbe] | None = None

    async def fingerprint(self) -> DriverInfo:
        probe = await self._probed()
        if not probe.path:
            return DriverInfo(health_description="; ".join(probe.problems))
        attributes = {f"driver.{self.name}": "1", f"driver.{self.name}.runtime": probe.name}
        if self._rootless:
            attributes[f"driver.{self.name}.rootless"] = "1"
        return DriverInfo(
            detected=True,
            healthy=True,
            health_description=_WITHOUT_LIMITS if self._rootless else "Healthy",
            attributes=attributes,
        )

    async def start_task(self, task: TaskConfig) -> TaskHandle:
        runtime = await self._runtime()
        isolation = self._isolation(task)
        signal_number(task.kill_signal)  # a wrong one must be told now, not at the stop
        capabilities = effective_capabilities(
            isolation.cap_add,
            isolation.cap_drop,
            self._options.allow_caps,
            f"{self.name}.allow_caps",
        )
        user = self._user(task)
        async with self._starting.of(task.key):
            if await self._supervisor.status(task.key) is None:
                await self._remove_container(task.key)
                self._write_bundle(task, isolation, user, capabilities)
            try:
                return await self._start(task, self._spec(runtime, task), {"runtime": runtime})
            except DriverError as error:
                await self._remove_container(task.key)
                if _NOT_FOUND.search(str(error)):
                    raise not_found_below(isolation.command, task.task_dir.task_dir) from None
                raise

    async def destroy_task(self, handle: TaskHandle) -> None:
        await super().destroy_task(handle)
        await self._remove_container(handle.key)

    async def exec_task(
        self, handle: TaskHandle, command: list[str], timeout_s: float
    ) -> ExecResult:
        return await run_command(await self._command(handle, command, tty=False), timeout_s)

    async def exec_stream(self, handle: TaskHandle, command: list[str], tty: bool) -> StreamSession:
        return await open_session(await self._command(handle, command, tty), tty)

    async def stats(self, handle: TaskHandle) -> TaskStats:
        if self._rootless:
            return process_stats(handle.pid, None)
        return self._layout.stats(group_name(handle.key))

    def _user(self, task: TaskConfig) -> UserIds:
        if self._rootless:
            if task.user:
                raise DriverError(
                    f'cannot run as "{task.user}": the agent does not run as root, so its tasks '
                    "run as its own user"
                )
            return UserIds(0, 0, [])
        name = task.user or DEFAULT_CHROOT_USER
        user = host_user(name)
        assert user is not None
        options = self._options
        check_name(name, user, options.denied_users, f"{self.name}.denied_users")
        check_ids(user, options.denied_host_uids, options.denied_host_gids, self.name)
        return user

    def denies_user(self, name: str) -> bool:
        return name in self._options.denied_users

    def _isolation(self, task: TaskConfig) -> oci.Isolation:
        """What the job chooses of its container."""
        chosen = decode_config(self.name, task.task_name, task.config, oci.Isolation)
        command = find_in_root(chosen.command, chosen.work_dir, task.task_dir)
        return msgspec.structs.replace(chosen, command=command)

    async def close(self) -> None:
        """Leave no empty directories behind; those in use stay."""
        for directory in (self._run_dir / "bundles", self._run_dir / "state", self._run_dir):
            with contextlib.suppress(OSError):
                directory.rmdir()

    # -- bundle --------------------------------------------------------------------------------

    def _bundle(self, key: str) -> Path:
        return self._run_dir / "bundles" / group_name(key)

    def _write_bundle(
        self,
        task: TaskConfig,
        isolation: oci.Isolation,
        user: UserIds,
        capabilities: list[str],
    ) -> None:
        runtime = oci.Runtime(
            cgroups_path=self._layout.oci_path(group_name(task.key)),
            resources=oci_resources(task.resources),
            capabilities=capabilities,
            pid_mode=isolation.pid_mode or self._options.default_pid_mode,
            ipc_mode=isolation.ipc_mode or self._options.default_ipc_mode,
            rootless=self._rootless,
        )
        config = oci.bundle_config(task, isolation, user, runtime, self._options.chroot_env)
        bundle = self._bundle(task.key)
        bundle.mkdir(parents=True, mode=0o700)
        path = bundle / "config.json"
        path.touch(mode=0o600)
        path.write_bytes(msgspec.json.encode(config))

    def _spec(self, runtime: str, task: TaskConfig) -> TaskSpec:
        bundle = self._bundle(task.key)
        pid_file, error_log = str(bundle / "pid"), str(bundle / "log")
        return TaskSpec(
            key=task.key,
            argv=[
                *self._at_state(runtime),
                "--log",
                error_log,
                "run",
                "--detach",
                *(["--no-pivot"] if self._options.no_pivot_root else []),
                "--bundle",
                str(bundle),
                "--pid-file",
                pid_file,
                group_name(task.key),
            ],
            cwd=str(bundle),
            env={"PATH": os.environ.get("PATH", os.defpath)},
            streams=log_streams(task),
            group=self._layout.runtime_owned(group_name(task.key)),
            pid_file=pid_file,
            error_log=error_log,
        )

    async def _remove_container(self, key: str) -> None:
        """Make the runtime forget it: its control group and its state go with it."""
        bundle = self._bundle(key)
        if not bundle.exists():
            return
        command = [*self._at_state(await self._runtime()), "delete", "--force", group_name(key)]
        process = await start_child(
            *command,
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
        )
        await process.wait()
        await asyncio.to_thread(shutil.rmtree, bundle, ignore_errors=True)

    # -- runtime -------------------------------------------------------------------------------

    async def _command(self, handle: TaskHandle, command: list[str], tty: bool) -> Command:
        await self._running(handle)
        process = self._write_process(handle.key, command, tty)
        return Command(
            argv=[
                *self._at_state(handle.state["runtime"]),
                "exec",
                "--process",
                str(process),
                group_name(handle.key),
            ],
            env={"PATH": os.environ.get("PATH", os.defpath)},
            cwd="/",
        )

    def _write_process(self, key: str, command: list[str], tty: bool) -> Path:
        """Returns the file that says how a command runs: with the user, groups and rights of the
        task. By its options alone a command of crun is root's, and may gain rights.

        The file is named for what it holds, since a script check runs often."""
        bundle = self._bundle(key)
        config = msgspec.json.decode((bundle / "config.json").read_bytes())
        process = {**config["process"], "args": command, "terminal": tty}
        if tty and not any(each.startswith("TERM=") for each in process["env"]):
            process["env"] = [*process["env"], f"TERM={TERMINAL}"]
        content = msgspec.json.encode(process)
        path = bundle / f"command-{hashlib.sha256(content).hexdigest()[:32]}.json"
        if path.exists():
            os.utime(path)
        else:
            _remove_oldest(bundle.glob("command-*.json"), _MOST_COMMANDS - 1)
            with tempfile.NamedTemporaryFile(dir=bundle, delete=False) as file:
                file.write(content)
            os.rename(file.name, path)
        return path

    def _at_state(self, runtime: str) -> list[str]:
        """The runtime's command on this node's containers."""
        return runtime_command(runtime, str(self._run_dir / "state"), self._rootless)

    async def _runtime(self) -> str:
        probe = await self._probed()
        if not probe.path:
            raise DriverError(f"cannot use the {self.name} driver: {'; '.join(probe.problems)}")
        return probe.path

    async def _probed(self) -> RuntimeProbe:
        """Probe once: the installed runtimes do not change while the agent runs."""
        if self._probe is None:
            self._probe = asyncio.create_task(self._find(), name="exec runtime probe")
        return await asyncio.shield(self._probe)

    async def _find(self) -> RuntimeProbe:
        if not self._options.enabled:
            return RuntimeProbe(problems=("disabled in the agent's config",))
        return await find_runtime(self._layout.oci_path(f"probe-{os.getpid()}"), self._rootless)


def _remove_oldest(files: Iterable[Path], most: int) -> None:
    """Removes all but the `most` files that were changed last."""
    oldest_first = sorted(files, key=lambda file: file.stat().st_mtime_ns)
    for file in oldest_first[: max(0, len(oldest_first) - most)]:
        file.unlink(missing_ok=True)
