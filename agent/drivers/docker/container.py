"""The engine's request made from a docker task's config. Pure."""

from __future__ import annotations

import fnmatch

from agent.drivers.base import TaskConfig
from agent.drivers.capabilities import (
    ALL_CAPABILITIES,
    DEFAULT_CAPABILITIES,
    effective_capabilities,
)
from agent.drivers.docker.config import DeviceConfig, DockerConfig
from agent.drivers.docker.mounts import mount_settings
from agent.drivers.docker.network import (
    has_own_network,
    inner_ports,
    joined_network,
    network_settings,
    port_bindings,
)
from agent.drivers.docker.options import DockerOptions
from orchgit.errors import DriverError

_MIB = 1 << 20
_LABEL = "org.orchgit."
_NOMAD_LABEL = "com.hashicorp.nomad."
KEY_LABEL = f"{_LABEL}key"
ALLOC_LABEL = f"{_LABEL}alloc_id"
OWNER_LABEL = f"{_LABEL}data_dir"
"""Whose container it is: other agents may use the same engine."""
PAUSE_LABEL = f"{_LABEL}pause"
"""The allocation whose network namespace the container holds."""
_ENGINES_OWN = "NET_RAW"
"""The one capability that the engine gives by default and a task does not have."""
_LOOSENING = ("unconfined", "label=disable", "label:disable", "systempaths=unconfined")


def container_request(
    task: TaskConfig,
    config: DockerConfig,
    options: DockerOptions,
    cores: int,
    engine: str = "docker",
) -> dict[str, object]:
    """The body of `POST /containers/create`; DriverError for what the node does not allow."""
    _check_allowed(config, options, engine)
    joined = joined_network(task, config, engine)
    mode = joined or config.network_mode or "default"
    inside = inner_ports(task, config)
    published = port_bindings(task, inside) if has_own_network(mode) else {}
    host = _host_config(task, config, options, cores, engine)
    request: dict[str, object] = {
        "Image": config.image,
        "Env": [f"{name}={value}" for name, value in task.env.items()],
        "Labels": _labels(task, config, options),
        "User": task.user,
        "WorkingDir": config.work_dir,
        "Hostname": config.hostname,
        "Tty": config.tty,
        "OpenStdin": config.interactive,
        "ExposedPorts": {port: {} for port in published},
        "HostConfig": {**host, "NetworkMode": mode, "PortBindings": published},
    }
    command = [*([config.command] if config.command else []), *config.args]
    if command:
        request["Cmd"] = command
    if config.entrypoint is not None:
        request["Entrypoint"] = config.entrypoint
    if config.healthchecks.disable:
        request["Healthcheck"] = {"Test": ["NONE"]}
    return {**request, **network_settings(config)}


def container_name(task: TaskConfig) -> str:
    """One name per attempt: the engine itself then refuses a second container for it."""
    plain = "".join(
        c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in task.task_name
    )
    return f"{plain}-{task.alloc_id}-{task.attempt}"


def labels_of(request: dict[str, object]) -> dict[str, str]:
    """Of a request that `container_request` made."""
    labels = request["Labels"]
    assert isinstance(labels, dict)
    return labels


def _check_allowed(config: DockerConfig, options: DockerOptions, engine: str) -> None:
    if config.runtime and config.runtime not in options.allow_runtimes:
        raise DriverError(
            f'cannot use runtime "{config.runtime}": the agent\'s config has only '
            f"{', '.join(options.allow_runtimes)} in {engine}.allow_runtimes"
        )
    if options.pids_limit and config.pids_limit > options.pids_limit:
        raise DriverError(
            f"cannot set pids_limit to {config.pids_limit}: the agent's config allows "
            f"{options.pids_limit} in {engine}.pids_limit"
        )
    if config.cgroupns not in ("", "host", "private"):
        raise DriverError(f'cannot set cgroupns to "{config.cgroupns}": use host or private')
    for name in ("shm_size", "pids_limit", "memory_hard_limit", "container_exists_attempts"):
        if getattr(config, name) < 0:
            raise DriverError(f"cannot set {name} to {getattr(config, name)}: it is below 0")
    if options.allow_privileged:
        return
    asks = {
        "privileged": config.privileged,
        "pid_mode": config.pid_mode == "host",
        "ipc_mode": config.ipc_mode == "host",
        "uts_mode": config.uts_mode == "host",
        "userns_mode": config.userns_mode == "host",
        "security_opt": any(
            text.endswith(loose) for text in config.security_opt for loose in _LOOSENING
        ),
        "devices": bool(config.devices),
        "oom_score_adj": config.oom_score_adj < 0,
    }
    for name, asked in asks.items():
        if asked:
            raise DriverError(
                f"cannot use {name} of the {engine} driver: the agent's config does not set "
                f"{engine}.allow_privileged"
            )


def _labels(task: TaskConfig, config: DockerConfig, options: DockerOptions) -> dict[str, str]:
    extra = {
        "job_name": task.job_name,
        "job_id": task.job_id,
        "task_group_name": task.task_group,
        "task_name": task.task_name,
        "namespace": task.namespace,
        "node_name": task.node_name,
        "node_id": task.node_id,
    }
    return {
        **config.labels,
        **{
            f"{_NOMAD_LABEL}{name}": value
            for name, value in extra.items()
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in options.extra_labels)
        },
        KEY_LABEL: task.key,
        ALLOC_LABEL: task.alloc_id,
        f"{_LABEL}task_name": task.task_name,
        f"{_LABEL}job_id": task.job_id,
        f"{_NOMAD_LABEL}alloc_id": task.alloc_id,
    }


def _host_config(
    task: TaskConfig, config: DockerConfig, options: DockerOptions, cores: int, engine: str
) -> dict[str, object]:
    host: dict[str, object] = {
        **_limits(task, config, options, cores),
        **mount_settings(task, config, options, engine),
        **_capability_settings(config, options, engine),
        "LogConfig": _log_config(config, options),
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": False,
        "Privileged": config.privileged,
        "ReadonlyRootfs": config.readonly_rootfs,
        "Init": config.init,
        "GroupAdd": config.group_add,
        "Dns": config.dns_servers,
        "DnsSearch": config.dns_search_domains,
        "DnsOptions": config.dns_options,
        "ExtraHosts": config.extra_hosts,
        "SecurityOpt": config.security_opt,
        "Sysctls": config.sysctl,
        "StorageOpt": config.storage_opt,
        "PidMode": config.pid_mode,
        "IpcMode": config.ipc_mode,
        "UsernsMode": config.userns_mode,
        "UTSMode": config.uts_mode,
        "Devices": [
            *(_device(device) for device in config.devices),
            *(
                _device(DeviceConfig(path))
                for path in task.devices.nodes
                if not (engine == "docker" and task.devices.nvidia_gpus and "nvidia" in path)
            ),
        ],
        "DeviceRequests": _gpu_requests(task, options, engine),
        "Ulimits": [_ulimit(name, text) for name, text in config.ulimit.items()],
    }
    runtime = config.runtime or (options.nvidia_runtime if task.devices.nvidia_gpus else "")
    if runtime:
        host["Runtime"] = runtime
    if config.cgroupns:
        host["CgroupnsMode"] = config.cgroupns
    return host


def _gpu_requests(task: TaskConfig, options: DockerOptions, engine: str) -> list[dict[str, object]]:
    """The engine finds the files and libraries of GPUs itself, unless a runtime does."""
    if not task.devices.nvidia_gpus or engine != "docker" or options.nvidia_runtime:
        return []
    return [
        {
            "Driver": "nvidia",
            "DeviceIDs": list(task.devices.nvidia_gpus),
            "Capabilities": [["gpu"]],
        }
    ]


def _capability_settings(
    config: DockerConfig, options: DockerOptions, engine: str
) -> dict[str, object]:
    wanted = effective_capabilities(
        config.cap_add, config.cap_drop, options.allow_caps, f"{engine}.allow_caps"
    )
    if len(wanted) == len(ALL_CAPABILITIES):
        return {"CapAdd": ["ALL"], "CapDrop": []}
    if not wanted:
        return {"CapAdd": [], "CapDrop": ["ALL"]}
    usual = (*DEFAULT_CAPABILITIES, _ENGINES_OWN)
    return {
        "CapAdd": [name for name in wanted if name not in usual],
        "CapDrop": [name for name in usual if name not in wanted],
    }


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


def _limits(
    task: TaskConfig, config: DockerConfig, options: DockerOptions, cores: int
) -> dict[str, object]:
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
        if config.cpuset_cpus:
            raise DriverError(
                f'cannot set cpuset_cpus to "{config.cpuset_cpus}": the task has cores of its own, '
                "by resources.cores"
            )
        limits["CpusetCpus"] = ",".join(str(core) for core in wanted.reserved_cores)
    elif config.cpuset_cpus:
        limits["CpusetCpus"] = config.cpuset_cpus
    if config.cpu_hard_limit:
        share = len(wanted.reserved_cores) or max(0.01, cores * wanted.cpu_fraction)
        limits["CpuPeriod"] = config.cpu_cfs_period
        limits["CpuQuota"] = round(share * config.cpu_cfs_period)
    optional = {
        "ShmSize": config.shm_size,
        "PidsLimit": config.pids_limit or options.pids_limit,
        "OomScoreAdj": config.oom_score_adj,
    }
    return {**limits, **{name: value for name, value in optional.items() if value}}


def _log_config(config: DockerConfig, options: DockerOptions) -> dict[str, object]:
    """Small files: the agent copies them into the allocation's logs at once."""
    one = config.logging or options.logging
    kind = one.type or one.driver or "json-file"
    settings = dict(one.config)
    if kind == "json-file" and not settings:
        settings = {"max-file": "2", "max-size": "2m"}
    return {"Type": kind, "Config": settings}
