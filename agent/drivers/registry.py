"""Which drivers this node has: the built-in ones and those of installed packages.

A package adds a driver through the entry point group `orchgit.drivers`: a callable that takes a
`DriverContext` and returns a `base.Driver`. A driver that cannot be made is left out and named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import metadata
from pathlib import Path

import msgspec
import structlog

from agent.devices.nvidia import NvidiaOptions
from agent.drivers.base import Driver, ReportEvent, no_events
from agent.drivers.cgroups import CgroupLayout
from agent.drivers.config import decode_options
from agent.drivers.docker.driver import DockerDriver
from agent.drivers.docker.options import DockerOptions
from agent.drivers.exec import ExecDriver, ExecOptions
from agent.drivers.java import JavaDriver, JavaOptions
from agent.drivers.mock import MockDriver, MockOptions
from agent.drivers.podman.config import PodmanOptions
from agent.drivers.podman.driver import PodmanDriver
from agent.drivers.qemu import QemuDriver, QemuOptions
from agent.drivers.raw_exec import RawExecDriver, RawExecOptions
from agent.supervisor.client import SupervisorClient
from orchgit.clock import Clock

ENTRY_POINT_GROUP = "orchgit.drivers"

DEVICES_GROUP = "orchgit.devices"

DriverOptions = Mapping[str, Mapping[str, object]]

_log = structlog.get_logger(component="agent")


class DriverContext(msgspec.Struct, frozen=True):
    """What a driver may be made from."""

    data_dir: Path
    supervisor: SupervisorClient
    cgroups: CgroupLayout
    clock: Clock
    options: DriverOptions = {}
    """The agent's config by driver: `{"raw_exec": {"enabled": True}}`."""
    allowlist: tuple[str, ...] = ()
    """The only drivers of this node; empty: all that are there."""
    denylist: tuple[str, ...] = ()
    report: ReportEvent = no_events
    """Takes what a driver tells of a task in between."""

    def has(self, driver: str) -> bool:
        """Whether the lists let the node have the driver."""
        return driver not in self.denylist and (not self.allowlist or driver in self.allowlist)

    def option(self, driver: str, name: str, default: object = None) -> object:
        return self.options.get(driver, {}).get(name, default)


Factory = Callable[[DriverContext], Driver]


def load_drivers(context: DriverContext) -> dict[str, Driver]:
    """Every driver by name. None is started or probed: that is what `fingerprint` is for."""
    installed: dict[str, Factory] = {
        point.name: partial(_load, point)
        for point in metadata.entry_points(group=ENTRY_POINT_GROUP)
    }
    factories = {**_BUILT_IN, **installed}
    for name in sorted(set(context.options) - known_plugins()):
        _log.warning("the configuration has a plugin block of no driver", driver=name)
    drivers = {}
    for name, factory in factories.items():
        if not context.has(name):
            continue
        enabled = context.option(name, "enabled", name not in _OFF_BY_DEFAULT)
        if enabled is False and name not in _REPORTED_WHEN_OFF:
            continue
        try:
            drivers[name] = factory(context)
        except Exception as error:  # noqa: BLE001 -- one bad plugin must not stop the node
            _log.warning("cannot load driver", driver=name, error=str(error))
    return drivers


def known_plugins() -> frozenset[str]:
    """Returns the names that a `plugin` block of this machine's agent may have: those of drivers
    and of devices, built in or installed, also as Nomad names them."""
    installed = (metadata.entry_points(group=group) for group in (ENTRY_POINT_GROUP, DEVICES_GROUP))
    names = (name for points in installed for name in points.names)
    return frozenset((*OPTION_SHAPES, *NOMADS_NAMES, *names))


def _load(point: metadata.EntryPoint, context: DriverContext) -> Driver:
    driver: Driver = point.load()(context)
    return driver


def _raw_exec(context: DriverContext) -> Driver:
    options = decode_options("raw_exec", context.options.get("raw_exec", {}), RawExecOptions)
    return RawExecDriver(context.supervisor, context.cgroups, options)


def _exec(context: DriverContext) -> Driver:
    options = decode_options("exec", context.options.get("exec", {}), ExecOptions)
    return ExecDriver(context.supervisor, context.cgroups, context.data_dir, options)


def _docker(context: DriverContext) -> Driver:
    options = decode_options("docker", context.options.get("docker", {}), DockerOptions)
    return DockerDriver(context.data_dir, options, context.clock, context.report)


def _java(context: DriverContext) -> Driver:
    options = decode_options("java", context.options.get("java", {}), JavaOptions).for_exec()
    return JavaDriver(context.supervisor, context.cgroups, context.data_dir, options)


def _qemu(context: DriverContext) -> Driver:
    options = decode_options("qemu", context.options.get("qemu", {}), QemuOptions)
    return QemuDriver(context.supervisor, context.cgroups, context.data_dir, options)


def _podman(context: DriverContext) -> Driver:
    options = decode_options("podman", context.options.get("podman", {}), PodmanOptions)
    if options.recover_stopped:
        _log.warning("recover_stopped has no effect: restart policies decide of ended containers")
    return PodmanDriver(context.data_dir, options, context.clock, context.report)


OPTION_SHAPES: Mapping[str, type[msgspec.Struct]] = {
    "docker": DockerOptions,
    "exec": ExecOptions,
    "raw_exec": RawExecOptions,
    "mock_driver": MockOptions,
    "podman": PodmanOptions,
    "java": JavaOptions,
    "qemu": QemuOptions,
    "nvidia": NvidiaOptions,
}
"""What the agent's config may say of the built-in drivers."""
NOMADS_NAMES: Mapping[str, str] = {
    "nomad-driver-podman": "podman",
    "nomad-device-nvidia": "nvidia",
}
"""The names of `plugin` blocks written for Nomad, where these are programs of their own."""
_OFF_BY_DEFAULT = ("mock_driver",)
"""The mock driver is for tests: a job that names it by mistake would be reported as running."""
_REPORTED_WHEN_OFF = ("raw_exec", "exec")
"""Their fingerprint says why they are off."""

_BUILT_IN: dict[str, Factory] = {
    "raw_exec": _raw_exec,
    "exec": _exec,
    "docker": _docker,
    "podman": _podman,
    "java": _java,
    "qemu": _qemu,
    "mock_driver": lambda context: MockDriver(context.clock),
}
