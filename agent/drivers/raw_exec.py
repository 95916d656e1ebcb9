"""`raw_exec`: a process of the host without isolation, held together by a control group.

It runs in the task's directory, as the agent's user unless the job names one. Off unless the
agent's config enables it (`enabled = true`): anybody who may register jobs then owns the node.
"""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import os
import shutil
from pathlib import Path

import msgspec

from agent.drivers import cgroups
from agent.drivers.base import DriverInfo, ExecResult, Mount, TaskConfig, TaskHandle, TaskStats
from agent.drivers.config import decode_config
from agent.drivers.launch_errors import explained, not_found, not_started
from agent.drivers.options import check_ids
from agent.drivers.programs import find_on_host
from agent.drivers.sessions import Command, StreamSession, open_session, run_command
from agent.drivers.signals import signal_number
from agent.drivers.supervised import SupervisedDriver, group_name, log_streams
from agent.drivers.users import UserIds, host_user
from agent.paths import open_directory
from agent.supervisor.client import SupervisorClient
from agent.supervisor.protocol import ControlGroup, TaskSpec
from orchgit.errors import DriverError

_MAX_OOM_SCORE = 1000
_MEMBERS = "group_members"
_ENVIRONMENT_TRIES, _ENVIRONMENT_RETRY_S = 200, 0.005


class RawExecConfig(msgspec.Struct, frozen=True):
    command: str
    args: list[str] = []
    work_dir: str = ""
    oom_score_adj: int = 0
    """How willing the kernel is to end it where memory runs out: 0 to 1000."""
    denied_envvars: list[str] = []
    """Names or patterns of variables that the task does not get."""
    cgroup_v1_override: dict[str, str] = {}
    """Control group by controller, below its tree, to join in place of the task's own."""
    cgroup_v2_override: str = ""


class RawExecOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's `raw_exec` plugin options."""

    enabled: bool = False
    denied_host_uids: str = ""
    denied_host_gids: str = ""
    denied_envvars: list[str] = []


_DEFAULT_OPTIONS = RawExecOptions()


class RawExecDriver(SupervisedDriver):
    name = "raw_exec"
    isolation = "none"

    def __init__(
        self,
        supervisor: SupervisorClient,
        layout: cgroups.CgroupLayout,
        options: RawExecOptions = _DEFAULT_OPTIONS,
    ) -> None:
        super().__init__(supervisor)
        self._layout = layout
        self._options = options

    async def fingerprint(self) -> DriverInfo:
        if not self._options.enabled:
            return DriverInfo(health_description="disabled; enable it in the agent's config")
        return DriverInfo(
            detected=True,
            healthy=True,
            health_description="Healthy",
            attributes={"driver.raw_exec": "1"},
        )

    async def start_task(self, task: TaskConfig) -> TaskHandle:
        if not self._options.enabled:
            raise DriverError("cannot start with raw_exec: the agent's config does not enable it")
        config = decode_config(self.name, task.task_name, task.config, RawExecConfig)
        signal_number(task.kill_signal)  # a wrong one must be told now, not at the stop
        user = host_user(task.user)
        own = UserIds(os.geteuid(), os.getegid(), os.getgroups())
        options = self._options
        check_ids(user or own, options.denied_host_uids, options.denied_host_gids, self.name)
        if not 0 <= config.oom_score_adj <= _MAX_OOM_SCORE:
            raise DriverError(
                f"cannot set oom_score_adj to {config.oom_score_adj}: use 0 to {_MAX_OOM_SCORE}"
            )
        denied = (*options.denied_envvars, *config.denied_envvars)
        cwd = os.path.normpath(os.path.join(task.task_dir.task_dir, config.work_dir))
        for mount in task.mounts:
            _link_volume(task, mount)
        group = self._group(task, config)
        spec = TaskSpec(
            key=task.key,
            argv=[_find_command(config.command, task), *config.args],
            cwd=cwd,
            env={
                name: value
                for name, value in task.env.items()
                if not any(fnmatch.fnmatchcase(name, pattern) for pattern in denied)
            },
            uid=user.uid if user else None,
            gid=user.gid if user else None,
            groups=user.groups if user else [],
            streams=log_streams(task),
            group=group,
            oom_score_adj=config.oom_score_adj,
            network_namespace=task.network.namespace if task.network else "",
        )
        state = {
            "cwd": cwd,
            "network_namespace": spec.network_namespace,
            _MEMBERS: "\n".join(group.members if group else ()),
        }
        try:
            return await self._start(task, spec, state)
        except DriverError as error:
            raise explained(error, spec.argv) from None

    def _group(self, task: TaskConfig, config: RawExecConfig) -> ControlGroup | None:
        """The group that holds the task together, with its cores and limits, and those that the job
        names.

        A process is in one group of the unified tree: where the job names that one, a group of
        another tree holds the task together, if the node has such.
        """
        layout, name = self._layout, group_name(task.key)
        joined = layout.overrides(config.cgroup_v1_override, config.cgroup_v2_override)
        for path in joined:
            if ".." in path.split("/") or not os.path.isdir(path):
                raise DriverError(f"cannot join the control group {path}: it is not there")
        group = layout.tracking(name, beside_unified=bool(config.cgroup_v2_override))
        group = layout.with_cores(group, name, task.resources)
        group = layout.with_limits(group, name, task.resources)
        if not joined:
            return group
        members = [os.path.join(path, "cgroup.procs") for path in joined]
        group = group or ControlGroup()
        return msgspec.structs.replace(group, members=[*group.members, *members])

    async def exec_task(
        self, handle: TaskHandle, command: list[str], timeout_s: float
    ) -> ExecResult:
        return await run_command(await self._command(handle, command), timeout_s)

    async def exec_stream(self, handle: TaskHandle, command: list[str], tty: bool) -> StreamSession:
        return await open_session(await self._command(handle, command), tty)

    async def stats(self, handle: TaskHandle) -> TaskStats:
        group = self._layout.holding(group_name(handle.key))
        return cgroups.process_stats(handle.pid, group)

    async def _command(self, handle: TaskHandle, command: list[str]) -> Command:
        """The context is read from the running task: its environment is stored nowhere else."""
        report = await self._running(handle)
        try:
            env, ids = await _environment(report.pid), _identity(report.pid)
        except OSError:
            raise DriverError(f"cannot use task {handle.key}: it has just ended") from None
        found = shutil.which(command[0], path=env.get("PATH") or os.defpath)
        if found is None:
            raise DriverError(f"cannot run {command[0]}: there is no such command")
        return Command(
            argv=[found, *command[1:]],
            env=env,
            cwd=handle.state["cwd"],
            network_namespace=handle.state.get("network_namespace", ""),
            group_members=self._group_members(handle),
            uid=ids[0] if ids[0] != os.geteuid() else None,
            gid=ids[1],
            groups=ids[2],
        )

    def _group_members(self, handle: TaskHandle) -> list[str]:
        """The files by which a process joins the task's groups. Handles of earlier versions do not
        tell; the group that holds the task together is found by its name."""
        if (stored := handle.state.get(_MEMBERS)) is not None:
            return stored.split("\n") if stored else []
        group = self._layout.holding(group_name(handle.key))
        return list(group.members) if group else []


def _link_volume(task: TaskConfig, mount: Mount) -> None:
    """Without a mount namespace a volume is a link below the task's directory."""
    if mount.read_only:
        raise DriverError(
            f"cannot mount {mount.task_path} read-only for task {task.task_name}: raw_exec has no "
            "isolation; use exec or docker"
        )
    *above, name = [part for part in mount.task_path.split("/") if part not in ("", ".")] or [""]
    if ".." in (*above, name) or not name:
        raise DriverError(f'cannot mount "{mount.task_path}": it leads out of the task directory')
    try:
        directory_fd = open_directory(Path(task.task_dir.task_dir), above)
        try:
            with contextlib.suppress(FileNotFoundError):
                if os.readlink(name, dir_fd=directory_fd) == mount.host_path:
                    return
                os.unlink(name, dir_fd=directory_fd)
            os.symlink(mount.host_path, name, dir_fd=directory_fd)
        finally:
            os.close(directory_fd)
    except OSError as error:
        raise DriverError(f'cannot mount "{mount.task_path}": {error.strerror}') from None


def _find_command(command: str, task: TaskConfig) -> str:
    """In the task's local directory, in its directory, on its PATH; or an absolute path."""
    own = find_on_host(command, task.task_dir)
    if own is not None:
        return own
    if not command:
        raise not_started([task.task_dir.local_dir], "permission denied")
    if os.path.isabs(command) and os.path.isfile(command):
        raise not_started([command], "permission denied")
    found = shutil.which(command, path=task.env.get("PATH") or os.environ.get("PATH"))
    if found is None:
        raise not_found(command)
    return os.path.abspath(found)


async def _environment(pid: int) -> dict[str, str]:
    """The environment that `pid` was started with.

    Linux closes the descriptors of a process that executes a program shortly before it sets the
    new environment (proc(5): the file is empty until then), so that a start can be reported first.
    """
    file = Path(f"/proc/{pid}/environ")
    for _ in range(_ENVIRONMENT_TRIES):
        data = file.read_bytes()
        if data:
            break
        await asyncio.sleep(_ENVIRONMENT_RETRY_S)
    pairs = data.split(b"\0")
    return dict(os.fsdecode(pair).split("=", 1) for pair in pairs if b"=" in pair)


def _identity(pid: int) -> tuple[int, int, list[int]]:
    lines = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    uid, gid = (int(lines[name].split()[0]) for name in ("Uid", "Gid"))
    return uid, gid, [int(group) for group in lines["Groups"].split()]
