"""A task that is a CSI plugin: the directory of its socket, and where it mounts volumes."""

from __future__ import annotations

import os
import re
from pathlib import Path

from agent.csi.mount_records import MOUNTED
from agent.csi.plugins import CONTROLLER
from agent.drivers.base import Mount
from agent.hooks.base import FatalSetupError, SetupError, TaskSetup
from agent.paths import csi_socket_directory
from orchgit.model.base import NS_PER_S
from orchgit.model.task import Task

SOCKET = "csi.sock"
_MAX_SOCKET_PATH_BYTES = 107
_HEALTH_TIMEOUT_S = 30.0
_DEVICES = "/dev"
_MOUNT_INFO = Path("/proc/self/mountinfo")
_ESCAPE = re.compile(r"\\([0-7]{3})")


async def prepare(setup: TaskSetup) -> None:
    """A task that sees the node's files gets the socket's own path; any other finds it in its
    `mount_dir`, and has the places of the node's volumes in its `stage_publish_base_dir`, and the
    node's devices. Raises
    SetupError for a plugin whose mounts the node would not see."""
    config = setup.task.csi_plugin_config
    if config is None:
        return
    kind, plugin_id = plugin_name(setup.task)
    directory = csi_socket_directory(setup.paths.csi_dir, setup.alloc.id, setup.task.name)
    size = len(os.fsencode(directory / SOCKET))
    if size > _MAX_SOCKET_PATH_BYTES:
        raise FatalSetupError(
            f'cannot run CSI plugin "{plugin_id}": the path of its socket has {size} bytes, and '
            f"the system takes {_MAX_SOCKET_PATH_BYTES}; give the agent a shorter data_dir"
        )
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        (directory / SOCKET).unlink(missing_ok=True)
        for name in MOUNTED:
            (setup.paths.csi_dir / name).mkdir(mode=0o711, exist_ok=True)
    except OSError as error:
        raise SetupError(f"cannot make the directory of the CSI plugin: {error}") from None
    seen = str(directory)
    if setup.isolation != "none":
        seen = str(config.get("MountDir") or "/csi")
        setup.mounts.append(Mount(str(directory), seen))
    if setup.isolation != "none" and kind != CONTROLLER:
        root, base = setup.paths.csi_dir, seen_root(setup.task, setup.isolation)
        why = why_mounts_stay_inside(root, setup.isolation, _MOUNT_INFO.read_text())
        if why:
            raise SetupError(
                f'cannot run CSI plugin "{plugin_id}" with driver {setup.task.driver}: what it '
                f"mounts would stay in its container, {why}"
            )
        for name in MOUNTED:
            setup.mounts.append(Mount(str(root / name), f"{base}/{name}", is_shared=True))
        # A disk that is attached later has a device there; the container's own files would not.
        setup.mounts.append(Mount(_DEVICES, _DEVICES))
    setup.results.env["CSI_ENDPOINT"] = f"unix://{seen}/{SOCKET}"


def why_mounts_stay_inside(path: Path, isolation: str, mounts: str) -> str:
    """Returns why the node would not see what a task mounts below `path`, and the way out; "" where
    it does. `mounts` is the text of /proc/self/mountinfo."""
    if isolation != "image":
        return "which is a chroot: run it with docker, podman or raw_exec"
    where, found, is_shared = f"{os.path.realpath(path)}/", "", True
    for line in mounts.splitlines():
        fields = line.partition(" - ")[0].split(" ")
        point = _ESCAPE.sub(lambda code: chr(int(code[1], 8)), fields[4])
        if where.startswith(f"{point.rstrip('/')}/") and len(point) >= len(found):
            found, is_shared = point, any(each.startswith("shared:") for each in fields[6:])
    if is_shared:
        return ""
    return (
        f"since the node's mount {found} is not shared: run `mount --make-shared {found}` on the "
        "node, or run the plugin with raw_exec"
    )


def seen_root(task: Task, isolation: str) -> str:
    """Returns the directory that a plugin sees in place of the node's directory of CSI volumes;
    empty for one that sees the node's files."""
    if isolation == "none":
        return ""
    base = (task.csi_plugin_config or {}).get("StagePublishBaseDir")
    return str(base or "/local/csi").rstrip("/")


def health_timeout_s(task: Task) -> float:
    """For how long the plugin that a task is may be silent before its task is restarted."""
    timeout_ns = (task.csi_plugin_config or {}).get("HealthTimeout")
    if isinstance(timeout_ns, int) and timeout_ns > 0:
        return timeout_ns / NS_PER_S
    return _HEALTH_TIMEOUT_S


def plugin_name(task: Task) -> tuple[str, str]:
    """(kind, id) of the plugin that a task is."""
    config = task.csi_plugin_config or {}
    return str(config.get("Type", "")), str(config.get("ID", ""))
