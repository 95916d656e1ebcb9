"""Host volumes: those the group asks for are found on the node, and mounted into the task."""

from __future__ import annotations

from agent.drivers.base import Mount
from agent.hooks.base import SetupError, TaskSetup, VolumeSource
from orchgit.model.allocation import Allocation
from orchgit.model.group import TaskGroup
from orchgit.model.node import Node


def find_sources(group: TaskGroup, alloc: Allocation, node: Node) -> dict[str, VolumeSource]:
    """Where each host volume of the group lies on this node; SetupError when one is not there."""
    sources = {}
    for name, request in (group.volumes or {}).items():
        if request.type == "csi":
            continue  # claimed and mounted by `CsiVolumes`
        if request.type not in ("host", ""):
            raise SetupError(f'cannot use volume "{name}": type "{request.type}" is not supported')
        source = f"{request.source}[{alloc.name_index}]" if request.per_alloc else request.source
        found = node.host_volumes.get(source)
        if found is None:
            raise SetupError(f'cannot use volume "{name}": this node has no host volume "{source}"')
        sources[name] = VolumeSource(found.path, request.read_only or found.read_only)
    return sources


async def prepare(setup: TaskSetup) -> None:
    setup.mounts = []
    for mount in setup.task.volume_mounts or ():
        source = setup.volume_sources.get(mount.volume)
        if source is None:
            raise SetupError(f'cannot mount volume "{mount.volume}": the group has no such volume')
        setup.mounts.append(
            Mount(source.host_path, mount.destination, mount.read_only or source.read_only)
        )
