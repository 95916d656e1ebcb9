"""Runs a command in a virtual machine that has version 2 of control groups alone.

    python -m tests.support.virtual_machine .venv/bin/python -m pytest -n 0 FILES

The machine is User Mode Linux (Debian's user-mode-linux): a kernel that is a process of this
system, so that it needs neither hardware support nor an image. It sees this system's files, and
what it writes is gone with it. It has one processor, and so no cpuset controller.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

KERNEL = "linux.uml"
_INIT = Path(__file__).with_name("virtual_machine_init.sh")
_REPOSITORY = Path(__file__).parents[2]
_DISK_BYTES = 20 << 30
_PASSED_ON = ("CI", "PYTHONPATH")
_NO_STATUS = 70


def run_in_virtual_machine(command: Sequence[str], memory_mb: int = 3072) -> int:
    """Runs `command` in the repository's directory; what it and the kernel print goes to this
    process's output. Returns its exit status, or 70 where the machine stopped before it ended."""
    directory = Path(tempfile.mkdtemp(prefix="orchgit-machine-"))
    try:
        disk, status = directory / "disk", directory / "status"
        with disk.open("wb") as file:
            file.truncate(_DISK_BYTES)  # sparse: it takes the room of what is written
        subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", disk], check=True)
        variables = [f"{name}={os.environ[name]}" for name in _PASSED_ON if name in os.environ]
        line = shlex.join(["env", f"--chdir={_REPOSITORY}", *variables, *command])
        (directory / "command").write_text(f"exec {line}\n")
        subprocess.run(
            [
                KERNEL,
                f"mem={memory_mb}M",
                f"ubda={disk}",
                *("rootfstype=hostfs", "rootflags=/", "ro", "quiet"),
                *("con=null", "con0=fd:0,fd:1"),
                f"init={_INIT}",
                f"machine={directory}",
                f"repository={_REPOSITORY}",
            ],
            stdin=subprocess.DEVNULL,
        )
        return int(status.read_text()) if status.exists() else _NO_STATUS
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    sys.exit(run_in_virtual_machine(sys.argv[1:]))
