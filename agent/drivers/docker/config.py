"""What a job may set for a container: the `config` block of a docker task."""

from __future__ import annotations

import msgspec

_NO_WINDOWS = "it is a setting of Windows, and this driver runs Linux containers"
REFUSED = {
    "gpus": "it would give GPUs that the scheduler does not know of; write "
    'resources { device "nvidia/gpu" {} }',
    "isolation": _NO_WINDOWS,
    "platforms": 'write platform = "linux/ARCH"',
}
"""Keys that a reader may expect, and why they are not there."""


class BindOptions(msgspec.Struct, frozen=True):
    propagation: str = ""


class VolumeDriverConfig(msgspec.Struct, frozen=True):
    name: str = ""
    options: dict[str, str] = {}


class VolumeOptions(msgspec.Struct, frozen=True):
    no_copy: bool = False
    labels: dict[str, str] = {}
    driver_config: VolumeDriverConfig | None = None


class TmpfsOptions(msgspec.Struct, frozen=True):
    size: int = 0
    """Bytes."""
    mode: int = 0


class MountConfig(msgspec.Struct, frozen=True):
    target: str
    source: str = ""
    type: str = "volume"
    readonly: bool = False
    bind_options: BindOptions | None = None
    volume_options: VolumeOptions | None = None
    tmpfs_options: TmpfsOptions | None = None


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
    config: dict[str, str] = {}


class DockerConfig(msgspec.Struct, frozen=True):
    image: str
    platform: str = ""
    """`linux/arm64`: which image of several to pull; orchgit's own key."""
    load: str = ""
    """An archive in the task's `local` directory that has the image."""
    force_pull: bool = False
    image_pull_timeout: str = "5m"
    auth: AuthConfig | None = None
    auth_soft_fail: bool = False
    command: str = ""
    args: list[str] = []
    entrypoint: list[str] | None = None
    ports: list[str] = []
    port_map: dict[str, int] = {}
    network_mode: str = ""
    network_aliases: list[str] = []
    ipv4_address: str = ""
    ipv6_address: str = ""
    mac_address: str = ""
    advertise_ipv6_address: bool = False
    hostname: str = ""
    extra_hosts: list[str] = []
    dns_servers: list[str] = []
    dns_search_domains: list[str] = []
    dns_options: list[str] = []
    volumes: list[str] = []
    volume_driver: str = ""
    mount: list[MountConfig] = []
    mounts: list[MountConfig] = []
    devices: list[DeviceConfig] = []
    labels: dict[str, str] = {}
    work_dir: str = ""
    init: bool = False
    interactive: bool = False
    tty: bool = False
    privileged: bool = False
    readonly_rootfs: bool = False
    cap_add: list[str] = []
    cap_drop: list[str] = []
    group_add: list[str] = []
    security_opt: list[str] = []
    sysctl: dict[str, str] = {}
    ulimit: dict[str, str] = {}
    """`nofile = "1024:2048"` (soft:hard), or one number for both."""
    storage_opt: dict[str, str] = {}
    pid_mode: str = ""
    ipc_mode: str = ""
    userns_mode: str = ""
    uts_mode: str = ""
    cgroupns: str = ""
    shm_size: int = 0
    pids_limit: int = 0
    memory_hard_limit: int = 0
    """MiB."""
    cpu_hard_limit: bool = False
    cpu_cfs_period: int = 100_000
    cpuset_cpus: str = ""
    oom_score_adj: int = 0
    runtime: str = ""
    logging: LoggingConfig | None = None
    healthchecks: HealthchecksConfig = HealthchecksConfig()
    container_exists_attempts: int = 0
    """How often a name that is taken is tried again; 0: as often as the agent's config says."""
