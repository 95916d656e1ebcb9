"""What a job may set for a container, and what the node's owner lets it."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")

Labels = dict[str, str] | list[dict[str, str]]


class MountConfig(msgspec.Struct, frozen=True):
    target: str
    source: str = ""
    type: str = "volume"
    readonly: bool = False


class AuthConfig(msgspec.Struct, frozen=True):
    username: str = ""
    password: str = ""
    email: str = ""
    server_address: str = ""


class DeviceConfig(msgspec.Struct, frozen=True):
    host_path: str
    container_path: str = ""
    cgroup_permissions: str = "rwm"


class HealthchecksConfig(msgspec.Struct, frozen=True):
    disable: bool = False


class LoggingConfig(msgspec.Struct, frozen=True):
    type: str = ""
    driver: str = ""
    config: Labels = {}


class DockerConfig(msgspec.Struct, frozen=True):
    image: str
    command: str = ""
    args: list[str] = []
    entrypoint: list[str] | None = None
    ports: list[str] = []
    network_mode: str = ""
    volumes: list[str] = []
    mount: list[MountConfig] | MountConfig = []
    mounts: list[MountConfig] = []
    labels: Labels = {}
    force_pull: bool = False
    image_pull_timeout: str = "5m"
    work_dir: str = ""
    hostname: str = ""
    init: bool = False
    interactive: bool = False
    tty: bool = False
    privileged: bool = False
    readonly_rootfs: bool = False
    cap_add: list[str] = []
    cap_drop: list[str] = []
    group_add: list[str] = []
    dns_servers: list[str] = []
    dns_search_domains: list[str] = []
    dns_options: list[str] = []
    extra_hosts: list[str] = []
    security_opt: list[str] = []
    sysctl: Labels = {}
    storage_opt: Labels = {}
    pid_mode: str = ""
    ipc_mode: str = ""
    userns_mode: str = ""
    uts_mode: str = ""
    shm_size: int = 0
    pids_limit: int = 0
    memory_hard_limit: int = 0
    cpu_hard_limit: bool = False
    cpu_cfs_period: int = 100_000
    oom_score_adj: int = 0
    runtime: str = ""
    logging: LoggingConfig | list[LoggingConfig] = LoggingConfig()
    auth: AuthConfig | list[AuthConfig] | None = None
    devices: list[DeviceConfig] = []
    healthchecks: HealthchecksConfig | list[HealthchecksConfig] = []
    mac_address: str = ""
    network_aliases: list[str] = []
    ipv4_address: str = ""
    ipv6_address: str = ""
    ulimit: Labels = {}
    """`nofile = "1024:2048"` (soft:hard), or one number for both."""

    @property
    def credentials(self) -> AuthConfig | None:
        return first(self.auth)


class DockerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's `docker` plugin options."""

    endpoint: str = ""
    """"" means DOCKER_HOST, or the usual socket."""
    allow_privileged: bool = False
    volumes_enabled: bool = False
    """Whether a job may mount any path of the host; its own directory it always may."""


def first(block: T | list[T] | None) -> T | None:
    """HCL gives a block as one map or as a list of maps."""
    if isinstance(block, list):
        return block[0] if block else None
    return block
