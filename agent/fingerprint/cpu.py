"""Processors: how many, how fast, and the MHz they add up to (what jobs reserve)."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

import msgspec

_FALLBACK_MHZ = 1000
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "i686": "386", "armv7l": "arm"}
_FREQUENCY_FILES = ("base_frequency", "cpuinfo_max_freq")


class Processors(msgspec.Struct, frozen=True):
    cores: int
    frequency_mhz: int
    total_compute_mhz: int
    model: str

    def attributes(self) -> dict[str, str]:
        return {
            "cpu.arch": architecture(),
            "cpu.numcores": str(self.cores),
            "cpu.frequency": str(self.frequency_mhz),
            "cpu.modelname": self.model,
            "cpu.reservablecores": str(self.cores),
            "cpu.totalcompute": str(self.total_compute_mhz),
            "cpu.usablecompute": str(self.total_compute_mhz),
        }


def read(
    total_compute_mhz: int = 0,
    cpuinfo: Path = Path("/proc/cpuinfo"),
    system: Path = Path("/sys/devices/system/cpu/cpu0/cpufreq"),
) -> Processors:
    """A configured `total_compute_mhz` wins over the measured one."""
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    cores = len(re.findall(r"^processor\s*:", text, re.MULTILINE)) or os.cpu_count() or 1
    speeds = re.findall(r"^cpu MHz\s*:\s*([\d.]+)", text, re.MULTILINE)
    current_mhz = round(max((float(speed) for speed in speeds), default=0.0))
    frequency_mhz = _nominal_mhz(system) or current_mhz or _FALLBACK_MHZ
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return Processors(
        cores=cores,
        frequency_mhz=frequency_mhz,
        total_compute_mhz=total_compute_mhz or cores * frequency_mhz,
        model=model[1].strip() if model else "",
    )


def architecture() -> str:
    """The processor's architecture by Go's name, which jobs' constraints use."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def _nominal_mhz(system: Path) -> int:
    """The processor's nominal speed, which does not change with the load of the moment."""
    for name in _FREQUENCY_FILES:
        path = system / name
        if path.exists():
            return int(path.read_text()) // 1000
    return 0
