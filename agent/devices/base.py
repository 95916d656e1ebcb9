"""The contract between the agent and a plugin of devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from agent.drivers.base import TaskDevices
from orchgit.model.node import NodeDevice

__all__ = ["DevicePlugin", "DeviceStats", "TaskDevices"]


class DeviceStats(msgspec.Struct, frozen=True, kw_only=True):
    """Use of one device at one moment; `values` are numbers by name with unit (`power_w`)."""

    device_id: str
    values: dict[str, float] = {}


@runtime_checkable
class HasPeriod(Protocol):
    """A plugin that says how often its devices are looked at; those of others, once a minute."""

    period_s: float


class DevicePlugin(Protocol):
    """One kind of device. Made by the agent once, from a `registry.DeviceContext`.

    All methods may block for a moment: the agent calls them on a thread. Raise DriverError for what
    goes wrong; the node is registered without the devices of a plugin that fails.
    """

    name: str
    """As in `plugin "NAME"` of the agent's configuration."""

    def fingerprint(self) -> list[NodeDevice]:
        """The devices that are there now: one `NodeDevice` per model, an instance per device. An
        empty list where there are none."""

    def reserve(self, device_ids: Sequence[str]) -> TaskDevices:
        """What a task needs that was given these instances. Called before each start: it must not
        depend on earlier calls. DriverError for an instance that is gone."""

    def stats(self) -> list[DeviceStats]:
        """How much each device is used."""

    def close(self) -> None:
        """The agent stops; tasks go on."""
