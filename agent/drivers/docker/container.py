"""What a job may set for a container, and the engine's request made from it. Pure."""

from __future__ import annotations

import os

import msgspec

from agent.drivers.base import Mount, TaskConfig
from agent.drivers.config import labelled
from orchgit.errors import DriverError

_MIB = 1 << 20
_LABEL = "org.orchgit."
KEY_LABEL = f"{_LABEL}key"

Labels = dict[str, str] | list[dict[str, str]]


class MountConfig(msgspec.Struct, frozen=True):
    target: str
    source: str = ""
    type: str = "volume"
    readonly: bool = False


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


class DockerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's `docker` plugin options."""

    endpoint: str = ""
    """"" means DOCKER_HOST, or the usual socket."""
    allow_privileged: bool = False
    volumes_enabled: bool = False
    """Whether a job may mount any path of the host; its own directory it always may."""


def container_request(
    task: TaskConfig, config: DockerConfig, options: DockerOptions, cores: int
) -> dict[str, object]:
    """The body of `POST /containers/create`; DriverError for what the node does not allow."""
    _check_allowed(config, options)
    request: dict[str, object] = {
        "Image": config.image,
        "Env": [f"{name}={value}" for name, value in task.env.items()],
        "Labels": _labels(task, config),
        "User": task.user,
        "WorkingDir": config.work_dir,
        "Hostname": config.hostname,
        "Tty": config.tty,
        "OpenStdin": config.interactive,
        "ExposedPorts": {port: {} for port in _published(task, config)},
        "HostConfig": _host_config(task, config, options, cores),
    }
    command = [*([config.command] if config.command else []), *config.args]
    if command:
        request["Cmd"] = command
    if config.entrypoint is not None:
        request["Entrypoint"] = config.entrypoint
    return request


def container_name(task: TaskConfig) -> str:
    """One name per attempt: the engine itself then refuses a second container for it."""
    plain = "".join(
        c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in task.task_name
    )
    return f"{plain}-{task.alloc_id}-{task.attempt}"


def _check_allowed(config: DockerConfig, options: DockerOptions) -> None:
    if options.allow_privileged:
        return
    asks = {
        "privileged": config.privileged,
        "pid_mode": config.pid_mode == "host",
        "ipc_mode": config.ipc_mode == "host",
        "uts_mode": config.uts_mode == "host",
        "userns_mode": config.userns_mode == "host",
        "security_opt": bool(config.security_opt),
        "cap_add": bool(config.cap_add),
    }
    for name, asked in asks.items():
        if asked:
            raise DriverError(
                f"cannot use {name} of the docker driver: the agent's config does not set "
                "docker.allow_privileged"
            )


def _labels(task: TaskConfig, config: DockerConfig) -> dict[str, str]:
    return {
        **labelled(config.labels),
        KEY_LABEL: task.key,
        f"{_LABEL}alloc_id": task.alloc_id,
        f"{_LABEL}task_name": task.task_name,
        f"{_LABEL}job_id": task.job_id,
        "com.hashicorp.nomad.alloc_id": task.alloc_id,
    }


def _host_config(
    task: TaskConfig, config: DockerConfig, options: DockerOptions, cores: int
) -> dict[str, object]:
    host: dict[str, object] = {
        **_limits(task, config, cores),
        "Mounts": _mounts(task, config, options),
        "PortBindings": _published(task, config),
        "NetworkMode": config.network_mode or "default",
        "LogConfig": _log_config(config),
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": False,
        "Privileged": config.privileged,
        "ReadonlyRootfs": config.readonly_rootfs,
        "Init": config.init,
        "CapAdd": config.cap_add,
        "CapDrop": config.cap_drop,
        "GroupAdd": config.group_add,
        "Dns": config.dns_servers,
        "DnsSearch": config.dns_search_domains,
        "DnsOptions": config.dns_options,
        "ExtraHosts": config.extra_hosts,
        "SecurityOpt": config.security_opt,
        "Sysctls": labelled(config.sysctl),
        "StorageOpt": labelled(config.storage_opt),
        "PidMode": config.pid_mode,
        "IpcMode": config.ipc_mode,
        "UsernsMode": config.userns_mode,
        "UTSMode": config.uts_mode,
    }
    if config.runtime:
        host["Runtime"] = config.runtime
    return host


def _limits(task: TaskConfig, config: DockerConfig, cores: int) -> dict[str, object]:
    """Memory in bytes; processor as a share, and as a hard limit where the job wants one."""
    wanted = task.resources
    hard_mb = config.memory_hard_limit or max(wanted.memory_mb, wanted.memory_max_mb)
    limits: dict[str, object] = {
        "Memory": hard_mb * _MIB,
        "MemorySwap": hard_mb * _MIB,
        "CpuShares": max(2, wanted.cpu_shares),
    }
    if hard_mb > wanted.memory_mb:
        limits["MemoryReservation"] = wanted.memory_mb * _MIB
    if wanted.reserved_cores:
        limits["CpusetCpus"] = ",".join(str(core) for core in wanted.reserved_cores)
    if config.cpu_hard_limit:
        share = len(wanted.reserved_cores) or min(cores, max(0.01, wanted.cpu_shares / 1000))
        limits["CpuPeriod"] = config.cpu_cfs_period
        limits["CpuQuota"] = round(share * config.cpu_cfs_period)
    optional = {
        "ShmSize": config.shm_size,
        "PidsLimit": config.pids_limit,
        "OomScoreAdj": config.oom_score_adj,
    }
    return {**limits, **{name: value for name, value in optional.items() if value}}


def _published(task: TaskConfig, config: DockerConfig) -> dict[str, list[dict[str, str]]]:
    """Both protocols of each port named in `ports`; none on the host's own network."""
    if config.network_mode == "host":
        return {}
    known = {port.label: port for port in task.ports}
    bindings: dict[str, list[dict[str, str]]] = {}
    for label in config.ports:
        port = known.get(label)
        if port is None:
            raise DriverError(
                f'cannot publish port "{label}" of task {task.task_name}: the group\'s network '
                "has no such port"
            )
        for protocol in ("tcp", "udp"):
            bindings[f"{port.task_port or port.host_port}/{protocol}"] = [
                {"HostIp": port.host_ip, "HostPort": str(port.host_port)}
            ]
    return bindings


def _mounts(
    task: TaskConfig, config: DockerConfig, options: DockerOptions
) -> list[dict[str, object]]:
    paths = task.task_dir
    own = (
        Mount(paths.alloc_dir, "/alloc"),
        Mount(paths.local_dir, "/local"),
        Mount(paths.secrets_dir, "/secrets"),
        *task.mounts,
    )
    single = [config.mount] if isinstance(config.mount, MountConfig) else config.mount
    return [
        *(_bind(mount) for mount in own),
        *(_bind(_volume(text, task, options)) for text in config.volumes),
        *(_mount(mount, task, options) for mount in (*single, *config.mounts)),
    ]


def _bind(mount: Mount) -> dict[str, object]:
    return {
        "Type": "bind",
        "Source": os.path.realpath(mount.host_path),
        "Target": mount.task_path,
        "ReadOnly": mount.read_only,
    }


def _volume(text: str, task: TaskConfig, options: DockerOptions) -> Mount:
    """`source:target[:ro]`."""
    parts = text.split(":")
    if len(parts) not in (2, 3) or not all(parts):
        raise DriverError(f'cannot mount volume "{text}": write "source:target" or "...:ro"')
    source = _host_path(parts[0], task, options)
    return Mount(source, parts[1], read_only="ro" in parts[2:])


def _mount(mount: MountConfig, task: TaskConfig, options: DockerOptions) -> dict[str, object]:
    source = mount.source
    if mount.type == "bind":
        source = _host_path(source, task, options)
    elif mount.type == "volume" and not options.volumes_enabled:
        raise DriverError(_volumes_refusal(source))
    elif mount.type not in ("volume", "tmpfs"):
        raise DriverError(f'cannot mount type "{mount.type}": use bind, volume or tmpfs')
    return {
        "Type": mount.type,
        "Source": source,
        "Target": mount.target,
        "ReadOnly": mount.readonly,
    }


def _host_path(source: str, task: TaskConfig, options: DockerOptions) -> str:
    """A relative source lies in the task's directory and may not lead out of it."""
    path = os.path.realpath(os.path.join(task.task_dir.task_dir, source))
    inside = os.path.commonpath([path, os.path.realpath(os.path.dirname(task.task_dir.task_dir))])
    allowed = inside == os.path.realpath(os.path.dirname(task.task_dir.task_dir))
    if not allowed and not options.volumes_enabled:
        raise DriverError(_volumes_refusal(source))
    return path


def _volumes_refusal(source: str) -> str:
    return (
        f'cannot mount "{source}": only paths in the allocation\'s directory may be mounted while '
        "the agent's config does not set docker.volumes.enabled"
    )


def _log_config(config: DockerConfig) -> dict[str, object]:
    """Small files: the agent copies them into the allocation's logs at once."""
    logging = config.logging
    one = logging if isinstance(logging, LoggingConfig) else (logging or [LoggingConfig()])[0]
    kind = one.type or one.driver or "json-file"
    settings = labelled(one.config)
    if kind == "json-file" and not settings:
        settings = {"max-file": "2", "max-size": "2m"}
    return {"Type": kind, "Config": settings}
