"""The disk that allocations are written to."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

_MIB = 1 << 20


class Storage(msgspec.Struct, frozen=True):
    volume: str
    total_bytes: int
    free_bytes: int

    @property
    def free_mb(self) -> int:
        return self.free_bytes // _MIB

    def attributes(self) -> dict[str, str]:
        return {
            "unique.storage.volume": self.volume,
            "unique.storage.bytestotal": str(self.total_bytes),
            "unique.storage.bytesfree": str(self.free_bytes),
        }


def read(directory: Path, total_mb: int = 0, free_mb: int = 0) -> Storage:
    """The file system that `directory` is on, or will be when it has been made."""
    existing = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    status = os.statvfs(existing)
    return Storage(
        volume=_device(os.stat(existing).st_dev),
        total_bytes=total_mb * _MIB or status.f_blocks * status.f_frsize,
        free_bytes=free_mb * _MIB or status.f_bavail * status.f_frsize,
    )


def _device(number: int) -> str:
    """What is mounted there, by the device's number; "" for one that no mount shows."""
    wanted = f"{os.major(number)}:{os.minor(number)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[2] == wanted:
            return after.split()[1]
    return ""
