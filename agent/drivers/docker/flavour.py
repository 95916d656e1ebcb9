"""What differs between engines of the Docker API: the names of options, attributes, the socket."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from agent.drivers.base import TaskConfig
from agent.drivers.config import decode_config, duration_s
from agent.drivers.docker.config import REFUSED, AuthConfig, DockerConfig
from agent.drivers.docker.container import container_name, container_request
from agent.drivers.docker.image_names import ImageName, parse_image_name
from agent.drivers.docker.network import inner_ports
from agent.drivers.docker.options import (
    DockerAuthOptions,
    DockerGcOptions,
    DockerOptions,
    DockerTlsOptions,
)
from orchgit.errors import DriverError

_ON = "1"


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the node's owner says of the engine and of the images."""

    endpoint: str
    """"" means the one that DOCKER_HOST names, or the engine at `usual_socket`."""
    usual_socket: str
    tls: DockerTlsOptions = DockerTlsOptions()
    auth: DockerAuthOptions = DockerAuthOptions()
    gc: DockerGcOptions = DockerGcOptions()
    inactivity_s: float = 120.0
    """A pull that tells nothing for so long is given up."""
    collects_logs: bool = True
    tells_memory_kills: bool = True
    """Whether the engine says of an ended container that the kernel killed it for its memory."""
    tells_every_end: bool = True
    """Whether the engine sees each end itself; else the agent watches the containers' processes."""


class ImageWanted(msgspec.Struct, frozen=True, kw_only=True):
    """The image of a task and how to get it."""

    name: ImageName
    auth: AuthConfig | None = None
    auth_soft_fail: bool = False
    force_pull: bool = False
    timeout_s: float = 300.0
    archive: str = ""
    """An archive with the image ("" if none): a file in `archive_root`, or an absolute path of the
    host that the job may use."""
    archive_root: str = ""
    """"" means the task's local directory."""
    is_named: bool = True
    """False where only the archive says what the image is called."""


class PreparedContainer(msgspec.Struct, frozen=True, kw_only=True):
    """A container about to be made."""

    name: str
    request: dict[str, object]
    image: ImageWanted
    attempts: int = 5
    """How often a name that is taken is tried."""
    ports: dict[str, int] = {}
    """Inside the container, by label."""
    prefers_ipv6: bool = False
    has_readable_logs: bool = True
    """Whether the engine can tell what the container has written."""


class EngineFlavour(Protocol):
    """One kind of engine."""

    name: str
    settings: EngineSettings

    def prepare(self, task: TaskConfig) -> PreparedContainer:
        """The request for one attempt. DriverError for what the node does not allow."""

    def attributes(self, version: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, str]:
        """The node's attributes of an engine that answers."""


def with_extra_hosts(task: TaskConfig, extra: Sequence[str]) -> TaskConfig:
    """The task with a copy of the group's /etc/hosts that has `NAME:ADDRESS` of the job too.

    DriverError for an entry of another form.
    """
    if not extra or task.network is None:
        return task
    lines = []
    for text in extra:
        name, colon, address = text.partition(":")
        if not (name and colon and address):
            raise DriverError(f'cannot use extra_hosts "{text}": write "NAME:ADDRESS"')
        lines.append(f"{address.strip('[]')} {name}\n")
    own = Path(task.task_dir.task_dir, "private", "hosts")
    try:
        own.parent.mkdir(mode=0o700, exist_ok=True)
        own.write_text(Path(task.network.hosts_file).read_text() + "".join(lines))
        own.chmod(0o644)
    except OSError as error:
        raise DriverError(f"cannot write {own}: {error.strerror}", recoverable=True) from None
    network = msgspec.structs.replace(task.network, hosts_file=str(own))
    return msgspec.structs.replace(task, network=network)


class DockerFlavour:
    name = "docker"

    def __init__(self, options: DockerOptions) -> None:
        self._options = options
        self.settings = EngineSettings(
            endpoint=options.endpoint,
            usual_socket="/var/run/docker.sock",
            tls=options.tls,
            auth=options.auth,
            gc=options.gc,
            inactivity_s=duration_s(options.pull_activity_timeout),
            collects_logs=not options.disable_log_collection,
        )

    def prepare(self, task: TaskConfig) -> PreparedContainer:
        config = decode_config(self.name, task.task_name, task.config, DockerConfig, REFUSED)
        options = self._options
        if task.network is not None and task.network.hosts_file and not config.network_mode:
            task = with_extra_hosts(task, config.extra_hosts)
            config = msgspec.structs.replace(config, extra_hosts=[])
        return PreparedContainer(
            name=container_name(task),
            request=container_request(task, config, options, os.cpu_count() or 1),
            image=ImageWanted(
                name=parse_image_name(config.image, config.platform),
                auth=config.auth,
                auth_soft_fail=config.auth_soft_fail,
                force_pull=config.force_pull,
                timeout_s=duration_s(config.image_pull_timeout),
                archive=config.load,
            ),
            ports=inner_ports(task, config),
            prefers_ipv6=config.advertise_ipv6_address,
            attempts=config.container_exists_attempts or options.container_exists_attempts,
        )

    def attributes(self, version: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, str]:
        found = {
            "driver.docker": _ON,
            "driver.docker.version": str(version.get("Version", "")),
            "driver.docker.os_type": str(version.get("Os", "")),
            "driver.docker.runtimes": ",".join(sorted(info.get("Runtimes") or {})),
        }
        if self._options.volumes.enabled:
            found["driver.docker.volumes.enabled"] = _ON
        if self._options.allow_privileged:
            found["driver.docker.privileged.enabled"] = _ON
        if address := info.get("BridgeIP"):
            found["driver.docker.bridge_ip"] = str(address)
        return found
