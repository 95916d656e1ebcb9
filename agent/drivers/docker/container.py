"""The engine's request made from a docker task's config. Pure."""

from __future__ import annotations

import os

from agent.drivers.base import Mount, TaskConfig
from agent.drivers.config import labelled
from agent.drivers.docker.config import (
    DeviceConfig,
    DockerConfig,
    DockerOptions,
    LoggingConfig,
    MountConfig,
    first,
)
from orchgit.errors import DriverError

_MIB = 1 << 20
_LABEL = "org.orchgit."
KEY_LABEL = f"{_LABEL}key"
ALLOC_LABEL = f"{_LABEL}alloc_id"
OWNER_LABEL = f"{_LABEL}data_dir"
"""Whose container it is: other agents may use the same engine."""


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
    checks = first(config.healthchecks)
    if checks is not None and checks.disable:
        request["Healthcheck"] = {"Test": ["NONE"]}
    return {**request, **_network(config)}


def _network(config: DockerConfig) -> dict[str, object]:
    """Addresses and names in a network of the engine's own."""
    addresses = {"IPv4Address": config.ipv4_address, "IPv6Address": config.ipv6_address}
    given = {name: address for name, address in addresses.items() if address}
    endpoint: dict[str, object] = {}
    if given:
        endpoint["IPAMConfig"] = given
    if config.network_aliases:
        endpoint["Aliases"] = config.network_aliases
    network: dict[str, object] = {}
    if config.mac_address:
        network["MacAddress"] = config.mac_address
    if endpoint:
        name = config.network_mode or "default"
        network["NetworkingConfig"] = {"EndpointsConfig": {name: endpoint}}
    return network


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
        "devices": bool(config.devices),
    }
    for name, asked in asks.items():
        if asked:
            raise DriverError(
                f"cannot use {name} of the docker driver: the agent's config does not set "
                "docker.allow_privileged"
            )


def labels_of(request: dict[str, object]) -> dict[str, str]:
    """Of a request that `container_request` made."""
    labels = request["Labels"]
    assert isinstance(labels, dict)
    return labels


def _labels(task: TaskConfig, config: DockerConfig) -> dict[str, str]:
    return {
        **labelled(config.labels),
        KEY_LABEL: task.key,
        ALLOC_LABEL: task.alloc_id,
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
        "Devices": [_device(device) for device in config.devices],
        "Ulimits": [_ulimit(name, text) for name, text in labelled(config.ulimit).items()],
    }
    if config.runtime:
        host["Runtime"] = config.runtime
    return host


def _device(device: DeviceConfig) -> dict[str, object]:
    return {
        "PathOnHost": device.host_path,
        "PathInContainer": device.container_path or device.host_path,
        "CgroupPermissions": device.cgroup_permissions,
    }


def _ulimit(name: str, text: str) -> dict[str, object]:
    soft, _, hard = text.partition(":")
    try:
        return {"Name": name, "Soft": int(soft), "Hard": int(hard or soft)}
    except ValueError:
        raise DriverError(
            f'cannot set ulimit {name} to "{text}": write "soft:hard" or one number'
        ) from None


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
    one = first(config.logging) or LoggingConfig()
    kind = one.type or one.driver or "json-file"
    settings = labelled(one.config)
    if kind == "json-file" and not settings:
        settings = {"max-file": "2", "max-size": "2m"}
    return {"Type": kind, "Config": settings}
