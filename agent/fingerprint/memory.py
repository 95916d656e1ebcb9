"""Memory that tasks can be given."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

_MIB = 1 << 20


class HostMemory(msgspec.Struct, frozen=True):
    total_bytes: int

    @property
    def total_mb(self) -> int:
        return self.total_bytes // _MIB

    def attributes(self) -> dict[str, str]:
        return {"memory.totalbytes": str(self.total_bytes)}


def read(total_mb: int = 0, meminfo: Path = Path("/proc/meminfo")) -> HostMemory:
    if total_mb:
        return HostMemory(total_mb * _MIB)
    found = re.search(r"^MemTotal:\s+(\d+) kB", meminfo.read_text(), re.MULTILINE)
    return HostMemory(int(found[1]) * 1024 if found else 0)
