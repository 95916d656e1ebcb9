"""A task that is a CSI plugin: the directory of its socket, and where it mounts volumes."""

from __future__ import annotations

from agent.drivers.base import Mount
from agent.hooks.base import SetupError, TaskSetup
from agent.paths import csi_socket_directory
from orchgit.model.task import Task

SOCKET = "csi.sock"


async def prepare(setup: TaskSetup) -> None:
    """A task that sees the node's files gets the socket's own path; any other finds it in its
    `mount_dir`, and the node's volumes in its `stage_publish_base_dir`."""
    config = setup.task.csi_plugin_config
    if config is None:
        return
    root = setup.paths.csi_dir
    directory = csi_socket_directory(root, *plugin_name(setup.task))
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        (directory / SOCKET).unlink(missing_ok=True)
    except OSError as error:
        raise SetupError(f"cannot make the directory of the CSI plugin: {error}") from None
    seen = str(directory)
    if setup.isolation != "none":
        seen = str(config.get("MountDir") or "/csi")
        base = str(config.get("StagePublishBaseDir") or "/local/csi")
        setup.mounts += [Mount(str(directory), seen), Mount(str(root), base)]
    setup.identity_env["CSI_ENDPOINT"] = f"unix://{seen}/{SOCKET}"


def plugin_name(task: Task) -> tuple[str, str]:
    """(kind, id) of the plugin that a task is."""
    config = task.csi_plugin_config or {}
    return str(config.get("Type", "")), str(config.get("ID", ""))
