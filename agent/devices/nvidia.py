"""`nvidia`: GPUs, found by NVIDIA's library.

A task sees the cards that it was given: engines of containers by a device request, other drivers by
the device files. CUDA itself takes the cards' ids from the environment.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from agent.devices.base import DeviceStats
from agent.devices.mig import part_files
from agent.devices.nvml import LIBRARY, GpuFacts, Nvml
from agent.drivers.base import TaskDevices
from agent.drivers.config import duration_s
from orchgit.errors import DriverError
from orchgit.model.node import NodeDevice, NodeDeviceInstance

_MIB = 1 << 20
_SHARED_FILES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_CUDA_VISIBLE = "CUDA_VISIBLE_DEVICES"


class NvidiaOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's `nvidia` plugin options."""

    enabled: bool = True
    ignored_gpu_ids: list[str] = []
    fingerprint_period: str = "1m"
    """How often the cards are looked at."""
    library: str = LIBRARY
    """Where NVIDIA's library is, if not where the system looks."""
    device_dir: str = "/dev"
    proc_dir: str = "/proc/driver/nvidia"
    """Where the kernel's driver tells which files open the parts of a divided card."""


class NvidiaPlugin:
    name = "nvidia"

    def __init__(self, options: NvidiaOptions) -> None:
        self._options = options
        self.period_s = duration_s(options.fingerprint_period)
        self._cards: dict[str, GpuFacts] = {}

    def fingerprint(self) -> list[NodeDevice]:
        if not Path(self._options.device_dir, "nvidiactl").exists():
            return []
        library = Nvml(self._options.library)
        try:
            version = library.driver_version()
            cards = library.cards()
        finally:
            library.close()
        self._cards = {card.id: card for card in cards}
        found: dict[str, NodeDevice] = {}
        for card in cards:
            if card.id in self._options.ignored_gpu_ids:
                continue
            model = found.setdefault(
                card.name, NodeDevice(vendor="nvidia", type="gpu", name=card.name, instances=[])
            )
            quantities = {
                "memory": (card.memory_bytes // _MIB, "MiB"),
                "bar1": (card.bar1_bytes // _MIB, "MiB"),
                "power": (card.power_limit_w, "W"),
                "cores_clock": (card.cores_clock_mhz, "MHz"),
                "memory_clock": (card.memory_clock_mhz, "MHz"),
            }
            model.attributes = {
                "driver_version": {"String": version},
                **{
                    name: {"Int": value, "Unit": unit}
                    for name, (value, unit) in quantities.items()
                    if value
                },
            }
            model.instances.append(
                NodeDeviceInstance(id=card.id, healthy=True, locality={"PciBusID": card.bus})
            )
        return list(found.values())

    def reserve(self, device_ids: Sequence[str]) -> TaskDevices:
        for device_id in device_ids:
            if device_id not in self._cards:
                raise DriverError(
                    f"cannot give GPU {device_id} to the task: this node does not have it any more",
                    recoverable=True,
                )
        names: list[str] = []
        for card in (self._cards[one] for one in device_ids):
            names += [f"nvidia{card.minor}", *part_files(card, Path(self._options.proc_dir))]
        names += _SHARED_FILES
        paths = [os.path.join(self._options.device_dir, name) for name in names]
        ids = ",".join(device_ids)
        return TaskDevices(
            env={VISIBLE: ids, _CUDA_VISIBLE: ids},
            nodes=tuple(path for path in dict.fromkeys(paths) if os.path.exists(path)),
            nvidia_gpus=tuple(device_ids),
        )

    def stats(self) -> list[DeviceStats]:
        if not self._cards:
            return []
        library = Nvml(self._options.library)
        try:
            return [
                DeviceStats(
                    device_id=one.id,
                    values={
                        "memory_used_bytes": one.memory_used_bytes,
                        "gpu_percent": one.gpu_percent,
                        "memory_percent": one.memory_percent,
                        "power_w": one.power_w,
                        "temperature_c": one.temperature_c,
                    },
                )
                for one in library.use()
            ]
        finally:
            library.close()

    def close(self) -> None:
        """The library is opened for each question only."""
