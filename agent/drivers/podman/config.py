"""What a job may set for a container of Podman, and what the node's owner lets it."""

from __future__ import annotations

import msgspec

from agent.drivers.capabilities import DEFAULT_CAPABILITIES
from agent.drivers.docker.config import AuthConfig
from agent.drivers.docker.options import (
    DanglingOptions,
    DockerAuthOptions,
    DockerVolumeOptions,
)

REFUSED = {
    "dns": "write dns_servers",
    "port_map": "write ports, and the port inside as `to` of the port in the group's network",
    "init_path": "the service takes it from its own containers.conf",
    "socket": "a node has one service of Podman, the option socket_path of the plugin",
}
"""Keys that a reader may expect, and why they are not there."""


class PodmanAuth(AuthConfig, frozen=True):
    """Credentials, and whether the registry's certificate is checked."""

    tls_verify: bool = True
    tls_verify_camel: bool = msgspec.field(default=True, name="tlsVerify")
    """The same key under its other name."""

    @property
    def verifies_tls(self) -> bool:
        return self.tls_verify and self.tls_verify_camel


class PodmanLogging(msgspec.Struct, frozen=True):
    driver: str = ""
    options: dict[str, str] = {}


class PodmanConfig(msgspec.Struct, frozen=True):
    """The `config` block; the names are those of Nomad's podman driver."""

    image: str
    """A name, or `docker-archive:PATH[:NAME]` or `oci-archive:PATH[:TAG]`."""
    force_pull: bool = False
    image_pull_timeout: str = "5m"
    auth: PodmanAuth | None = None
    auth_soft_fail: bool = False
    command: str = ""
    args: list[str] = []
    entrypoint: list[str] | str | None = None
    working_dir: str = ""
    labels: dict[str, str] = {}
    hostname: str = ""
    ports: list[str] = []
    network_mode: str = ""
    """`bridge`, `host`, `none`, `slirp4netns`, `container:NAME`, or a network's name."""
    extra_hosts: list[str] = []
    dns_servers: list[str] = []
    volumes: list[str] = []
    tmpfs: list[str] = []
    """Paths, each with options after a colon."""
    devices: list[str] = []
    """`/dev/x[:/dev/y[:rwm]]`."""
    init: bool = False
    tty: bool = False
    privileged: bool = False
    readonly_rootfs: bool = False
    cap_add: list[str] = []
    cap_drop: list[str] = []
    security_opt: list[str] = []
    selinux_opts: list[str] = []
    apparmor_profile: str = ""
    sysctl: dict[str, str] = {}
    ulimit: dict[str, str] = {}
    userns: str = ""
    pids_limit: int = 0
    shm_size: str = ""
    memory_reservation: str = ""
    memory_swap: str = ""
    memory_swappiness: int | None = None
    cpu_hard_limit: bool = False
    cpu_cfs_period: int = 100_000
    logging: PodmanLogging | None = None


class PodmanGcOptions(msgspec.Struct, frozen=True, kw_only=True):
    container: bool = True
    """Whether ended containers are removed."""
    dangling_containers: DanglingOptions = DanglingOptions()


class PodmanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's `podman` plugin options."""

    enabled: bool = True
    socket_path: str = ""
    """"" means the socket of root's `podman.socket`, or the agent's user's own."""
    client_http_timeout: str = "60s"
    allow_privileged: bool = False
    allow_caps: tuple[str, ...] = DEFAULT_CAPABILITIES
    volumes: DockerVolumeOptions = DockerVolumeOptions(enabled=True)
    """On unless switched off, as in Nomad."""
    auth: DockerAuthOptions = DockerAuthOptions()
    gc: PodmanGcOptions = PodmanGcOptions()
    dns_servers: list[str] = []
    extra_labels: list[str] = []
    logging: PodmanLogging = PodmanLogging()
    disable_log_collection: bool = False
    recover_stopped: bool = False
    """Nomad's; has no effect, of which the agent warns: an ended container is reported."""
