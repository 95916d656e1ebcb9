"""A task of Podman as a request of the Docker API. Pure but for the user's id."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from agent.drivers.base import TaskConfig
from agent.drivers.config import decode_config, duration_s
from agent.drivers.docker.config import DeviceConfig, DockerConfig, LoggingConfig
from agent.drivers.docker.container import container_name, container_request
from agent.drivers.docker.flavour import EngineSettings, PreparedContainer, with_extra_hosts
from agent.drivers.docker.network import inner_ports
from agent.drivers.docker.options import DockerGcOptions, DockerOptions
from agent.drivers.podman.config import REFUSED, PodmanConfig, PodmanOptions
from agent.drivers.podman.images import wanted_image
from orchgit.errors import DriverError

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_MIB = 1 << 20
_DEVICE_PARTS = 3
_MAX_SWAPPINESS = 100
_READABLE = ("k8s-file", "json-file")
_UNREADABLE = ("journald", "none", "passthrough")
"""Logging drivers by whether Podman's service tells what a container has written."""


class PodmanFlavour:
    name = "podman"

    def __init__(self, options: PodmanOptions) -> None:
        self._options = options
        self.settings = EngineSettings(
            endpoint=f"unix://{socket_path(options.socket_path)}",
            usual_socket=socket_path(""),
            auth=options.auth,
            gc=DockerGcOptions(
                image=False,
                container=options.gc.container,
                dangling_containers=options.gc.dangling_containers,
            ),
            inactivity_s=duration_s(options.client_http_timeout),
            collects_logs=not options.disable_log_collection,
            tells_memory_kills=False,
            tells_every_end=False,
        )

    def prepare(self, task: TaskConfig) -> PreparedContainer:
        config = decode_config(self.name, task.task_name, task.config, PodmanConfig, REFUSED)
        options = self._options
        if task.network is not None and task.network.hosts_file and not config.network_mode:
            task = with_extra_hosts(task, config.extra_hosts)
            config = msgspec.structs.replace(config, extra_hosts=[])
        wanted = _as_docker(task, config, options)
        limits = DockerOptions(
            allow_privileged=options.allow_privileged,
            allow_caps=options.allow_caps,
            volumes=options.volumes,
            extra_labels=options.extra_labels,
        )
        request = container_request(task, wanted, limits, os.cpu_count() or 1, self.name)
        host = request["HostConfig"]
        assert isinstance(host, dict)
        host |= _own_settings(task, config)
        if task.network is not None and not config.network_mode:
            host["NetworkMode"] = f"ns:{task.network.namespace}"
            request["Hostname"] = task.network.hostname
        if config.network_mode.startswith("task:"):
            other = config.network_mode.removeprefix("task:")
            raise DriverError(
                f"cannot share the network of task {other} alone: give the group a network block "
                'with mode = "bridge", which all its tasks share'
            )
        return PreparedContainer(
            name=container_name(task),
            request=request,
            image=wanted_image(task, config, options),
            ports=inner_ports(task, wanted),
            has_readable_logs=wanted.logging is not None and wanted.logging.type in _READABLE,
        )

    def attributes(self, version: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, str]:
        rootless = any("rootless" in str(text) for text in info.get("SecurityOptions") or ())
        return {
            "driver.podman": "1",
            "driver.podman.version": str(version.get("Version", "")),
            "driver.podman.rootless": str(rootless).lower(),
            "driver.podman.cgroupVersion": f"v{info.get('CgroupVersion', '')}",
            "driver.podman.ociRuntime": str(info.get("DefaultRuntime", "")),
            "driver.podman.socketName": "default",
        }


def socket_path(given: str) -> str:
    """The path of the service's socket: `unix:` and `unix://` before it are Nomad's forms."""
    if given:
        return given.removeprefix("unix:").replace("//", "/", 1)
    if os.geteuid() == 0:
        return "/run/podman/podman.sock"
    return f"/run/user/{os.geteuid()}/podman/podman.sock"


def _as_docker(task: TaskConfig, config: PodmanConfig, options: PodmanOptions) -> DockerConfig:
    """The keys that both engines have, under Docker's names."""
    entrypoint = config.entrypoint
    logging = config.logging or options.logging
    # "nomad" is: the output is read back, from the engine's files.
    log_driver = "k8s-file" if logging.driver in ("", "nomad") else logging.driver
    if log_driver not in (*_READABLE, *_UNREADABLE):
        raise DriverError(
            f'cannot use the logging driver "{log_driver}" of podman: use nomad (the log files of '
            f"the allocation), {', '.join(_UNREADABLE)}"
        )
    in_group = task.network is not None and not config.network_mode
    dns_servers = config.dns_servers or ([] if in_group else options.dns_servers)
    security = [
        *config.security_opt,
        *(f"label={text}" for text in config.selinux_opts),
        *([f"apparmor={config.apparmor_profile}"] if config.apparmor_profile else []),
    ]
    return DockerConfig(
        image=config.image,
        command=config.command,
        args=config.args,
        entrypoint=[entrypoint] if isinstance(entrypoint, str) else entrypoint,
        work_dir=config.working_dir,
        labels=config.labels,
        hostname=config.hostname,
        ports=config.ports,
        network_mode=config.network_mode,
        extra_hosts=config.extra_hosts,
        dns_servers=dns_servers,
        volumes=config.volumes,
        devices=[_device(text) for text in config.devices],
        init=config.init,
        tty=config.tty,
        privileged=config.privileged,
        readonly_rootfs=config.readonly_rootfs,
        cap_add=config.cap_add,
        cap_drop=config.cap_drop,
        security_opt=security,
        sysctl=config.sysctl,
        ulimit=config.ulimit,
        userns_mode=config.userns,
        pids_limit=config.pids_limit,
        shm_size=_bytes("shm_size", config.shm_size),
        cpu_hard_limit=config.cpu_hard_limit,
        cpu_cfs_period=config.cpu_cfs_period,
        logging=LoggingConfig(type=log_driver, config=dict(logging.options)),
    )


def _own_settings(task: TaskConfig, config: PodmanConfig) -> dict[str, object]:
    """The limits of memory, and file systems in memory: docker has other keys for them.

    DriverError for limits that contradict each other.
    """
    own: dict[str, object] = {}
    limit_mb = max(task.resources.memory_mb, task.resources.memory_max_mb)
    if config.memory_reservation:
        reserved = own["MemoryReservation"] = _bytes(
            "memory_reservation", config.memory_reservation
        )
        if reserved > limit_mb * _MIB:
            raise _beyond("memory_reservation", config.memory_reservation, "above", limit_mb)
    if config.memory_swap == "-1":
        own["MemorySwap"] = -1
    elif config.memory_swap:
        both = own["MemorySwap"] = _bytes("memory_swap", config.memory_swap)
        if both < limit_mb * _MIB:
            raise _beyond("memory_swap", config.memory_swap, "below", limit_mb)
    if config.memory_swappiness is not None:
        if not 0 <= config.memory_swappiness <= _MAX_SWAPPINESS:
            raise DriverError(
                f"cannot set memory_swappiness to {config.memory_swappiness}: use 0 to "
                f"{_MAX_SWAPPINESS}"
            )
        own["MemorySwappiness"] = config.memory_swappiness
    if config.tmpfs:
        own["Tmpfs"] = dict(text.partition(":")[::2] for text in config.tmpfs)
    return own


def _beyond(key: str, text: str, side: str, limit_mb: int) -> DriverError:
    counts = " (it counts memory and swap together; -1: no limit)" * (key == "memory_swap")
    return DriverError(
        f'cannot set {key} to "{text}": it is {side} the task\'s memory of {limit_mb} MiB{counts}'
    )


def _device(text: str) -> DeviceConfig:
    parts = text.split(":")
    if not 1 <= len(parts) <= _DEVICE_PARTS or not parts[0]:
        raise DriverError(f'cannot use device "{text}": write "/dev/x", "/dev/x:/dev/y:rwm"')
    path, inside, permissions = (*parts, "", "")[:_DEVICE_PARTS]
    return DeviceConfig(path, inside or path, permissions or "rwm")


def _bytes(key: str, text: str) -> int:
    found = re.fullmatch(r"(\d+)([bkmg]?)", text.lower() or "0")
    if not found:
        raise DriverError(f'cannot set {key} to "{text}": write a number and b, k, m or g')
    return int(found[1]) * _UNITS[found[2]]
