"""Kernel, operating system and name of the machine."""

from __future__ import annotations

import platform
import shlex
import signal
import socket
from pathlib import Path

NOMAD_COMPATIBLE_VERSION = "2.0.0"
"""The version of Nomad's model: jobs' version constraints and Nomad's tools read it."""


def attributes() -> dict[str, str]:
    release = _os_release()
    names = sorted(one.name for one in signal.Signals if not one.name.startswith("SIGRT"))
    return {
        "kernel.name": platform.system().lower(),
        "kernel.version": platform.release(),
        "kernel.arch": platform.machine(),
        "os.name": release.get("ID", platform.system().lower()),
        "os.version": release.get("VERSION_ID", ""),
        "os.signals": ",".join(names),
        "unique.hostname": socket.gethostname(),
        "nomad.version": NOMAD_COMPATIBLE_VERSION,
        "nomad.service_discovery": "true",
    }


def _os_release() -> dict[str, str]:
    path = Path("/etc/os-release")
    if not path.exists():
        return {}
    words = shlex.split(path.read_text(), comments=True)
    return dict(word.split("=", 1) for word in words if "=" in word)
