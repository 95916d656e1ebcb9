"""What of the host a container sees: its own directories, the job's volumes and mounts. Pure."""

from __future__ import annotations

import os
from typing import NamedTuple

from agent.drivers.base import Mount, TaskConfig
from agent.drivers.docker.config import DockerConfig, MountConfig
from agent.drivers.docker.network import network_files
from agent.drivers.docker.options import DockerOptions
from orchgit.errors import DriverError

_VOLUME_PARTS = (2, 3)
_MODES = ("ro", "rw", "z", "Z", "nocopy")
_PROPAGATIONS = ("private", "rprivate", "shared", "rshared", "slave", "rslave")


class _Allows(NamedTuple):
    options: DockerOptions
    engine: str

    def check(self, source: str) -> None:
        """DriverError unless jobs may mount what does not belong to their allocation."""
        if not self.options.volumes.enabled:
            raise DriverError(
                f'cannot mount "{source}": only paths in the allocation\'s directory may be '
                f"mounted while the agent's config does not set {self.engine}.volumes.enabled"
            )


def mount_settings(
    task: TaskConfig, config: DockerConfig, options: DockerOptions, engine: str = "docker"
) -> dict[str, object]:
    """`Mounts`, `Binds` and `VolumeDriver` of the container's host config.

    DriverError for a path of the host that the agent's config does not let jobs mount.
    """
    paths = task.task_dir
    own = (
        Mount(paths.alloc_dir, "/alloc"),
        Mount(paths.local_dir, "/local"),
        Mount(paths.secrets_dir, "/secrets"),
        *task.mounts,
        *network_files(task, config),
    )
    label = options.volumes.selinuxlabel
    allows = _Allows(options, engine)
    mounts = [_mount(mount, task, allows) for mount in (*config.mount, *config.mounts)]
    binds = [_volume(text, task, config, allows) for text in config.volumes]
    # Podman leaves out what is mounted below, unless it is told in words that Docker does not know.
    shared = ["rshared"] if engine == "docker" else ["rshared", "rbind"]
    for mount in own:
        source = os.path.realpath(mount.host_path)
        if label or mount.is_shared:  # the engine labels what is given as text only
            modes = ["ro" if mount.read_only else "rw", *(shared if mount.is_shared else ())]
            modes += [label] if label else []
            binds.append(f"{source}:{mount.task_path}:{','.join(modes)}")
        else:
            mounts.append(
                {
                    "Type": "bind",
                    "Source": source,
                    "Target": mount.task_path,
                    "ReadOnly": mount.read_only,
                }
            )
    return {"Mounts": mounts, "Binds": binds, "VolumeDriver": config.volume_driver}


def _volume(text: str, task: TaskConfig, config: DockerConfig, allows: _Allows) -> str:
    """`source:target[:mode]` as the engine takes it: it makes a source that is missing."""
    parts = text.split(":")
    if len(parts) not in _VOLUME_PARTS or not all(parts):
        raise DriverError(f'cannot mount volume "{text}": write "source:target" or "...:ro"')
    modes = [mode for part in parts[2:] for mode in part.split(",")]
    for mode in modes:
        if mode not in (*_MODES, *_PROPAGATIONS):
            raise DriverError(
                f'cannot mount volume "{text}": "{mode}" is none of '
                f"{', '.join((*_MODES, *_PROPAGATIONS))}"
            )
    if label := allows.options.volumes.selinuxlabel:
        modes.append(label)
    source = parts[0]
    if config.volume_driver:
        allows.check(source)
    else:
        source = _host_path(source, task, allows)
    return ":".join([source, parts[1], *([",".join(modes)] if modes else [])])


def _mount(mount: MountConfig, task: TaskConfig, allows: _Allows) -> dict[str, object]:
    request: dict[str, object] = {
        "Type": mount.type,
        "Target": mount.target,
        "ReadOnly": mount.readonly,
    }
    match mount.type:
        case "bind":
            request["Source"] = _host_path(mount.source, task, allows)
            if mount.bind_options and mount.bind_options.propagation:
                request["BindOptions"] = {"Propagation": mount.bind_options.propagation}
        case "volume":
            request["Source"] = mount.source
            if mount.volume_options is not None:
                given = mount.volume_options
                volume: dict[str, object] = {"NoCopy": given.no_copy, "Labels": given.labels}
                if given.driver_config is not None:  # it may bind any path of the host
                    allows.check(mount.source)
                    volume["DriverConfig"] = {
                        "Name": given.driver_config.name,
                        "Options": given.driver_config.options,
                    }
                request["VolumeOptions"] = volume
        case "tmpfs":
            if mount.tmpfs_options is not None:
                request["TmpfsOptions"] = {
                    "SizeBytes": mount.tmpfs_options.size,
                    "Mode": mount.tmpfs_options.mode,
                }
        case other:
            raise DriverError(f'cannot mount type "{other}": use bind, volume or tmpfs')
    return request


def _host_path(source: str, task: TaskConfig, allows: _Allows) -> str:
    """A relative source lies in the task's directory and may not lead out of the allocation's."""
    path = os.path.realpath(os.path.join(task.task_dir.task_dir, source))
    allocation = os.path.realpath(os.path.dirname(task.task_dir.task_dir))
    if os.path.commonpath([path, allocation]) != allocation:
        allows.check(source)
    return path
