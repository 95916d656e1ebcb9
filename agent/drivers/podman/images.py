"""Where the image of a podman task comes from: a registry, or an archive on the node."""

from __future__ import annotations

import os

import msgspec

from agent.drivers.base import TaskConfig
from agent.drivers.config import duration_s
from agent.drivers.docker.flavour import ImageWanted
from agent.drivers.docker.image_names import parse_image_name
from agent.drivers.podman.config import PodmanConfig, PodmanOptions
from orchgit.errors import DriverError

_ARCHIVES = ("docker-archive", "oci-archive")


def wanted_image(task: TaskConfig, config: PodmanConfig, options: PodmanOptions) -> ImageWanted:
    """Returns the image's name, or the archive that has it.

    DriverError for an archive that the job may not read.
    """
    auth = config.auth
    name = msgspec.structs.replace(
        parse_image_name(config.image), skip_tls_verify=auth is not None and not auth.verifies_tls
    )
    wanted = ImageWanted(
        name=name,
        auth=auth,
        auth_soft_fail=config.auth_soft_fail,
        force_pull=config.force_pull,
        timeout_s=duration_s(config.image_pull_timeout),
    )
    transport, _, rest = config.image.partition(":")
    if transport not in _ARCHIVES:
        return wanted
    path, _, inside = rest.partition(":")
    if not path or inside.startswith("//"):
        raise DriverError(
            f'cannot use image "{config.image}": write {transport}:PATH; an artifact block '
            "downloads an archive"
        )
    root, path = _archive_place(path, task, options)
    if inside and transport == "docker-archive":
        name = msgspec.structs.replace(parse_image_name(inside), given=config.image)
    return msgspec.structs.replace(
        wanted,
        name=name,
        archive=path,
        archive_root=root,
        is_named=bool(inside) and transport == "docker-archive",
    )


def _archive_place(path: str, task: TaskConfig, options: PodmanOptions) -> tuple[str, str]:
    """The directory of the allocation and the path in it; ("", path) for a file of the host.

    A job may name the directories as its container sees them, or as the host does.
    """
    paths = task.task_dir
    seen = {"/local": paths.local_dir, "/alloc": paths.alloc_dir, "/secrets": paths.secrets_dir}
    allocation = os.path.dirname(paths.task_dir)
    for begin, root in (*seen.items(), (allocation, allocation)):
        if path.startswith(f"{begin}/"):
            return root, path.removeprefix(f"{begin}/")
    if not os.path.isabs(path):
        return paths.task_dir, path
    if not options.volumes.enabled:
        raise DriverError(
            f'cannot load "{path}": only archives in the allocation\'s directory may be loaded '
            "while the agent's config does not set podman.volumes.enabled"
        )
    return "", path
