"""Facts about this machine for people who look for a fault."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_SECRET = re.compile(r"(?i)token|secret|key|passw|pwd|credential|auth|license|cookie|session")
_MAX_FILE_BYTES = 64 << 10
_MIB = 1 << 20


def read() -> dict[str, Any]:
    """Reads them now."""
    system = os.uname()
    return {
        "OS": " ".join(
            (system.machine, system.nodename, system.release, system.sysname, system.version)
        ),
        "Network": list(_networks()),
        "ResolvConf": _text("/etc/resolv.conf"),
        "Hosts": _text("/etc/hosts"),
        "Environment": {
            name: "<redacted>" if _SECRET.search(name) else _without_user(value)
            for name, value in os.environ.items()
        },
        "Disk": dict(_disks()),
    }


def _without_user(value: str) -> str:
    """Leaves out names and passwords of URLs."""
    return re.sub(r"://[^/@\s]+@", "://<redacted>@", value)


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_FILE_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _networks() -> Iterator[dict[str, Any]]:
    for _, name in socket.if_nameindex():
        place = f"/sys/class/net/{name}"
        mtu = _text(f"{place}/mtu").strip()
        yield {
            "Name": name,
            "HardwareAddr": _text(f"{place}/address").strip(),
            "MTU": int(mtu) if mtu.isdigit() else 0,
            "State": _text(f"{place}/operstate").strip(),
        }


def _disks() -> Iterator[tuple[str, dict[str, int]]]:
    for line in _text("/proc/self/mounts").splitlines():
        device, mount = line.split(" ")[:2]
        if not device.startswith("/dev/") or not Path(mount).is_dir():
            continue
        try:
            used = shutil.disk_usage(mount)
        except OSError:
            continue
        yield mount, {"DiskMB": used.total // _MIB, "UsedMB": used.used // _MIB}
