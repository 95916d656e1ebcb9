"""The machine's own use of resources, in the shape of Nomad's client stats."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from agent.devices.registry import Devices
from orchgit.clock import Clock
from orchgit.model.base import datetime_of_ns

_UNKNOWN_MHZ = 1000.0


def read(alloc_root: Path, clock: Clock, devices: Devices) -> dict[str, object]:
    """The processor's shares are those since the last question."""
    memory = psutil.virtual_memory()
    cpus = psutil.cpu_times_percent(interval=None, percpu=True)
    mhz = float(getattr(psutil.cpu_freq(), "max", 0.0)) or _UNKNOWN_MHZ
    per_cpu = [_cpu(index, times, mhz) for index, times in enumerate(cpus)]
    return {
        "AllocDirStats": _disk(str(alloc_root), "", ""),
        "CPU": per_cpu,
        "CPUTicksConsumed": sum(float(str(cpu["TotalTicks"])) for cpu in per_cpu),
        "DeviceStats": [
            {
                "Vendor": vendor,
                "Type": kind,
                "Name": name,
                "InstanceStats": {
                    one.device_id: {
                        "Stats": {
                            "Attributes": {
                                key: {"FloatNumeratorVal": value}
                                for key, value in one.values.items()
                            }
                        },
                        "Timestamp": datetime_of_ns(clock.now_ns()),
                    }
                    for one in instances
                },
            }
            for (vendor, kind, name), instances in devices.stats().items()
        ]
        or None,
        "DiskStats": list(_disks()),
        "Memory": {
            "Available": memory.available,
            "Free": memory.free,
            "Total": memory.total,
            "Used": memory.used,
        },
        "Timestamp": clock.now_ns(),
        "Uptime": int(time.time() - psutil.boot_time()),
    }


def _cpu(index: int, times: tuple[float, ...], mhz: float) -> dict[str, object]:
    idle, user, system = (float(getattr(times, name)) for name in ("idle", "user", "system"))
    # The first question has no time before it: all shares are 0.
    busy = max(0.0, 100.0 - idle) if any(times) else 0.0
    return {
        "CPU": f"cpu{index}",
        "Idle": idle,
        "System": system,
        "User": user,
        "TotalPercent": busy,
        "TotalTicks": busy / 100.0 * mhz,
    }


def _disks() -> Iterator[dict[str, object]]:
    for part in psutil.disk_partitions():
        # A file system may be unmounted, or its server be gone, in the meantime.
        with suppress(OSError):
            if Path(part.mountpoint).is_dir():
                yield _disk(part.mountpoint, part.device, part.mountpoint)


def _disk(path: str, device: str, mount_point: str) -> dict[str, object]:
    usage, inodes = psutil.disk_usage(path), os.statvfs(path)
    used_inodes = inodes.f_files - inodes.f_ffree
    return {
        "Device": device,
        "Mountpoint": mount_point,
        "Size": usage.total,
        "Used": usage.used,
        "Available": usage.free,
        "UsedPercent": usage.percent,
        "InodesUsedPercent": 100.0 * used_inodes / inodes.f_files if inodes.f_files else 0.0,
    }
