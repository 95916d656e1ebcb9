"""A task that is a CSI plugin: the directory of its socket, and where it mounts volumes."""

from __future__ import annotations

import os

from agent.csi.plugins import CONTROLLER
from agent.drivers.base import Mount
from agent.hooks.base import FatalSetupError, SetupError, TaskSetup
from agent.paths import csi_socket_directory
from orchgit.model.base import NS_PER_S
from orchgit.model.task import Task

SOCKET = "csi.sock"
_MAX_SOCKET_PATH_BYTES = 107
_HEALTH_TIMEOUT_S = 30.0


async def prepare(setup: TaskSetup) -> None:
    """A task that sees the node's files gets the socket's own path; any other finds it in its
    `mount_dir`. Raises SetupError for a plugin that would have to mount volumes from inside of a
    container: the node would not see them."""
    config = setup.task.csi_plugin_config
    if config is None:
        return
    kind, plugin_id = plugin_name(setup.task)
    if setup.isolation != "none" and kind != CONTROLLER:
        raise SetupError(
            f'cannot run CSI plugin "{plugin_id}" with driver {setup.task.driver}: what it mounts '
            "would stay in its container; run it with raw_exec, or only its controller here"
        )
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
    except OSError as error:
        raise SetupError(f"cannot make the directory of the CSI plugin: {error}") from None
    seen = str(directory)
    if setup.isolation != "none":
        seen = str(config.get("MountDir") or "/csi")
        setup.mounts.append(Mount(str(directory), seen))
    setup.results.env["CSI_ENDPOINT"] = f"unix://{seen}/{SOCKET}"


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
