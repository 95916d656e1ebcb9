"""Which plugins of devices this node has: the built-in one and those of installed packages.

A package adds a plugin through the entry point group `orchgit.devices`: a callable that takes a
`DeviceContext` and returns a `base.DevicePlugin`. One that cannot be made is left out and named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import metadata

import msgspec
import structlog

from agent.devices.base import DevicePlugin, DeviceStats, HasPeriod
from agent.devices.nvidia import NvidiaOptions, NvidiaPlugin
from agent.drivers.base import TaskDevices
from agent.drivers.config import decode_options
from orchgit.errors import DriverError, OrchgitError
from orchgit.model.node import NodeDevice
from orchgit.model.resources import AllocatedDevice

ENTRY_POINT_GROUP = "orchgit.devices"
PERIOD_S = 60.0
_LEAST_PERIOD_S = 1.0

_log = structlog.get_logger(component="agent")


class DeviceContext(msgspec.Struct, frozen=True):
    """What a plugin may be made from."""

    options: Mapping[str, object] = {}
    """The agent's `plugin` block of this name."""


def load_devices(options: Mapping[str, Mapping[str, object]]) -> Devices:
    """Every plugin; `options` are the `plugin` blocks by name."""
    factories: dict[str, Callable[[DeviceContext], DevicePlugin]] = {"nvidia": _nvidia}
    plugins: list[DevicePlugin] = []
    points = list(metadata.entry_points(group=ENTRY_POINT_GROUP))
    for name in dict.fromkeys([*factories, *(point.name for point in points)]):
        given = options.get(name, {})
        if given.get("enabled") is False:
            continue
        try:
            point = next((one for one in points if one.name == name), None)
            make = point.load() if point is not None else factories[name]
            plugins.append(make(DeviceContext(given)))
        except Exception as error:  # noqa: BLE001 -- one bad plugin must not stop the node
            _log.warning("cannot load the plugin of devices", plugin=name, error=str(error))
    return Devices(plugins)


class Devices:
    """The plugins of the node. `fingerprint` says which plugin each device is of."""

    def __init__(self, plugins: Sequence[DevicePlugin] = ()) -> None:
        self._plugins = plugins
        self._of_kind: dict[tuple[str, str, str], DevicePlugin] = {}
        self._ids: dict[tuple[str, str, str], list[str]] = {}

    @property
    def period_s(self) -> float:
        """How often all devices are looked at: as often as the plugin wants that wants it most."""
        wanted = (one.period_s for one in self._plugins if isinstance(one, HasPeriod))
        return max(_LEAST_PERIOD_S, min(wanted, default=PERIOD_S))

    def fingerprint(self) -> list[NodeDevice]:
        """Blocking. All devices; those of a plugin that fails are left out."""
        found: list[NodeDevice] = []
        for plugin in self._plugins:
            try:
                devices = plugin.fingerprint()
            except Exception as error:  # noqa: BLE001 -- a broken plugin must not stop the node
                _log.warning("cannot find devices", plugin=plugin.name, error=str(error))
                continue
            for device in devices:
                kind = (device.vendor, device.type, device.name)
                self._of_kind[kind] = plugin
                self._ids[kind] = [one.id for one in device.instances]
            found += devices
        return found

    def reserve(self, allocated: Sequence[AllocatedDevice]) -> TaskDevices:
        """Blocking. What a task may use that was given these devices. Raises DriverError."""
        given = []
        for device in allocated:
            plugin = self._of_kind.get((device.vendor, device.type, device.name))
            kind = f"{device.vendor}/{device.type}/{device.name}"
            if plugin is None:
                raise DriverError(f"cannot give {kind} to the task: this node has none")
            try:
                given.append(plugin.reserve(device.device_ids))
            except OrchgitError:
                raise
            except Exception as error:
                raise DriverError(f"cannot give {kind} to the task: {error}") from error
        return TaskDevices(
            env={name: text for one in given for name, text in one.env.items()},
            nodes=tuple(dict.fromkeys(node for one in given for node in one.nodes)),
            mounts=tuple(mount for one in given for mount in one.mounts),
            nvidia_gpus=tuple(gpu for one in given for gpu in one.nvidia_gpus),
        )

    def stats(self) -> dict[tuple[str, str, str], list[DeviceStats]]:
        """Blocking. The use of each device by vendor, type and name; of plugins that answer."""
        found: dict[tuple[str, str, str], list[DeviceStats]] = {}
        for plugin in self._plugins:
            try:
                by_id = {one.device_id: one for one in plugin.stats()}
            except Exception as error:  # noqa: BLE001 -- a broken plugin must not hide the others
                _log.debug("cannot measure devices", plugin=plugin.name, error=str(error))
                continue
            for kind, ids in self._ids.items():
                if self._of_kind[kind] is plugin:
                    found[kind] = [by_id[one] for one in ids if one in by_id]
        return found

    def close(self) -> None:
        for plugin in self._plugins:
            plugin.close()


def _nvidia(context: DeviceContext) -> DevicePlugin:
    return NvidiaPlugin(decode_options("nvidia", context.options, NvidiaOptions))
