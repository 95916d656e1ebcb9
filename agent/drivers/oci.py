"""The OCI bundle of an `exec` task: its root file system, namespaces, limits and user.

The root is the task's own directory, which the task may write, with the host's programs and
libraries mounted into it read-only, and the allocation's shared `alloc`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from agent.drivers.base import Mount, NetworkIsolation, TaskConfig
from agent.drivers.capabilities import DEFAULT_CAPABILITIES, plain_capability
from agent.drivers.users import UserIds
from orchgit.errors import DriverError

HOST_PATHS: Mapping[str, str] = {
    path: path
    for path in (
        *("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr", "/etc"),
        *("/run/resolvconf", "/run/systemd/resolve"),
    )
}
"""What of the host a task sees, and where."""

_MASKED = (
    *("/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list"),
    *("/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"),
)
_READ_ONLY = (
    *("/proc/asound", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"),
)


Mode = Literal["private", "host"]


class Isolation(msgspec.Struct, frozen=True):
    """What a job may choose of its container."""

    command: str
    args: list[str] = []
    work_dir: str = ""
    pid_mode: Mode | None = None
    ipc_mode: Mode | None = None
    """None: as the agent's config says."""
    cap_add: list[str] = []
    cap_drop: list[str] = []


class Runtime(msgspec.Struct, frozen=True):
    """Where the container is known on this node, and what the node gives it."""

    cgroups_path: str
    resources: dict[str, object]
    capabilities: Sequence[str] = DEFAULT_CAPABILITIES
    pid_mode: Mode = "private"
    ipc_mode: Mode = "private"
    rootless: bool = False
    """Without root the container has a user namespace in which the agent's user is root, and no
    control group."""


def bundle_config(
    task: TaskConfig,
    isolation: Isolation,
    user: UserIds,
    runtime: Runtime,
    host_paths: Mapping[str, str] = HOST_PATHS,
) -> dict[str, object]:
    """The bundle's `config.json`."""
    devices = [_device(path) for path in task.devices.nodes]
    given = [
        {"allow": True, "access": "rwm", **{key: one[key] for key in ("type", "major", "minor")}}
        for one in devices
    ]
    allowed = {"devices": [_NO_DEVICE, *_ALLOWED_DEVICES, *given]}
    return {
        "ociVersion": "1.0.2",
        "root": {"path": task.task_dir.task_dir, "readonly": False},
        "process": _process(task, isolation, user, runtime.capabilities),
        **({"hostname": task.network.hostname} if task.network and task.network.hostname else {}),
        "mounts": [
            *_system_mounts(runtime.rootless),
            *_host_mounts(host_paths),
            *_task_mounts(task),
        ],
        "linux": {
            "namespaces": _namespaces(runtime, task.network),
            **_ownership(runtime),
            **({} if runtime.rootless else {"resources": runtime.resources | allowed}),
            "devices": devices,
            "maskedPaths": list(_MASKED),
            "readonlyPaths": list(_READ_ONLY),
        },
    }


_NO_DEVICE: dict[str, object] = {"allow": False, "access": "rwm"}
_ALLOWED_DEVICES: tuple[dict[str, object], ...] = (
    {"allow": True, "type": "c", "access": "m"},
    {"allow": True, "type": "b", "access": "m"},
    *(
        {"allow": True, "type": "c", "major": major, "minor": minor, "access": "rwm"}
        for major, minor in ((1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2))
    ),
    {"allow": True, "type": "c", "major": 136, "access": "rwm"},
)


def _device(path: str) -> dict[str, object]:
    """A device file of the host at the same path. DriverError where there is none."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise DriverError(f"cannot give {path} to the task: {error.strerror}") from None
    kind = {stat.S_IFCHR: "c", stat.S_IFBLK: "b"}.get(stat.S_IFMT(found.st_mode))
    if kind is None:
        raise DriverError(f"cannot give {path} to the task: it is no device file")
    return {
        "path": path,
        "type": kind,
        "major": os.major(found.st_rdev),
        "minor": os.minor(found.st_rdev),
        "fileMode": stat.S_IMODE(found.st_mode) | 0o666,
        "uid": 0,
        "gid": 0,
    }


def _process(
    task: TaskConfig, isolation: Isolation, user: UserIds, plain: Sequence[str]
) -> dict[str, object]:
    capabilities = [f"CAP_{name}" for name in plain]
    # A user that is not root has none of the usual ones, which would make it nearly root; what the
    # job asks for by name is kept through the start of its program.
    asked = {f"CAP_{plain_capability(name)}" for name in isolation.cap_add}
    held = [name for name in capabilities if user.uid == 0 or name in asked]
    kept = [name for name in held if user.uid != 0]
    return {
        "terminal": False,
        "user": {"uid": user.uid, "gid": user.gid, "additionalGids": user.groups},
        "args": [isolation.command, *isolation.args],
        "env": [f"{name}={value}" for name, value in task.env.items()],
        "cwd": os.path.join("/", isolation.work_dir),
        "capabilities": {
            "bounding": capabilities,
            "effective": held,
            "permitted": held,
            "inheritable": kept,
            "ambient": kept,
        },
        "noNewPrivileges": True,
    }


def _ownership(runtime: Runtime) -> dict[str, object]:
    """The control group; without root, whose the container's users are."""
    if not runtime.rootless:
        return {"cgroupsPath": runtime.cgroups_path}
    own = {"uidMappings": os.geteuid(), "gidMappings": os.getegid()}
    return {key: [{"containerID": 0, "hostID": one, "size": 1}] for key, one in own.items()}


def _namespaces(runtime: Runtime, network: NetworkIsolation | None) -> list[dict[str, str]]:
    namespaces = [{"type": "mount"}]
    if runtime.pid_mode == "private":
        namespaces.append({"type": "pid"})
    if runtime.rootless:
        namespaces.append({"type": "user"})
    if runtime.ipc_mode == "private":
        namespaces.append({"type": "ipc"})
    if network is not None:
        namespaces.append({"type": "network", "path": network.namespace})
        if network.hostname:
            namespaces.append({"type": "uts"})
    return namespaces


def _system_mounts(rootless: bool) -> list[dict[str, object]]:
    def mount(kind: str, target: str, *options: str) -> dict[str, object]:
        return {"destination": target, "type": kind, "source": kind, "options": list(options)}

    terminals = ("nosuid", "noexec", "newinstance", "ptmxmode=0666")
    # The group of terminals and the system's own tree belong to users that are not there.
    system = _bind(Mount("/sys", "/sys", read_only=True))
    return [
        mount("proc", "/proc", "nosuid", "noexec", "nodev"),
        mount("tmpfs", "/dev", "nosuid", "strictatime", "mode=755", "size=65536k"),
        mount("devpts", "/dev/pts", *terminals, *(() if rootless else ("gid=5",))),
        mount("tmpfs", "/dev/shm", "nosuid", "noexec", "nodev", "mode=1777", "size=65536k"),  # noqa: S108
        mount("mqueue", "/dev/mqueue", "nosuid", "noexec", "nodev"),
        system if rootless else mount("sysfs", "/sys", "nosuid", "noexec", "nodev", "ro"),
    ]


def _host_mounts(host_paths: Mapping[str, str]) -> list[dict[str, object]]:
    return [
        _bind(Mount(source, target, read_only=True))
        for source, target in host_paths.items()
        if os.path.exists(source)
    ]


def _task_mounts(task: TaskConfig) -> list[dict[str, object]]:
    paths = task.task_dir
    own = (
        Mount(paths.alloc_dir, "/alloc"),
        Mount(paths.local_dir, "/local"),
        Mount(paths.secrets_dir, "/secrets"),
        Mount(os.path.join(paths.task_dir, "tmp"), "/tmp"),  # noqa: S108 -- the task's own
    )
    files: list[Mount] = []
    if task.network is not None:
        found = (
            ("/etc/hosts", task.network.hosts_file),
            ("/etc/resolv.conf", task.network.resolv_conf),
        )
        files = [Mount(source, target) for target, source in found if source]
    return [_bind(mount) for mount in (*own, *files, *task.mounts)]


def _bind(mount: Mount) -> dict[str, object]:
    return {
        "destination": os.path.join("/", mount.task_path),
        "type": "bind",
        "source": os.path.realpath(mount.host_path),
        "options": ["rbind", "ro" if mount.read_only else "rw"],
    }
