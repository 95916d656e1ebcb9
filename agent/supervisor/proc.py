"""Which process is which: start times, pidfds, and exit codes of processes that are not children.

A pid alone names nothing: it is reused. A process is (pid, start time in clock ticks since boot),
and that only within one boot of the machine.
"""

from __future__ import annotations

import fcntl
import os

_PIDFD_GET_INFO = 0xC040FF0B  # _IOWR(0xFF, 11, 64 bytes): Linux 6.13 and later
_INFO_EXIT = 1 << 3  # the exit status was recorded: Linux 6.15 and later


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def start_ticks(pid: int) -> int:
    """When the process started; 0 when there is none (a zombie counts as none)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


def open_pidfd(pid: int, ticks: int) -> int:
    """A pidfd for the process that started at `ticks`, or -1 when it is gone."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return -1
    if start_ticks(pid) != ticks:
        os.close(fd)
        return -1
    return fd


def recorded_exit_status(pid: int, pidfd: int) -> int | None:
    """The wait status of an ended process that is not our child; None if it cannot be known (yet).

    Before its parent has reaped it, /proc shows the status to those who may trace it (to others it
    shows 0, so ask only then); afterwards the kernel keeps it for holders of a pidfd.
    """
    status = _status_of_zombie(pid)
    return status if status is not None else _status_after_reaping(pidfd)


def _status_of_zombie(pid: int) -> int | None:
    try:
        if os.geteuid() not in (0, os.stat(f"/proc/{pid}").st_uid):
            return None
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[49]) if fields[0] == b"Z" else None


def _status_after_reaping(pidfd: int) -> int | None:
    info = bytearray(64)
    info[:8] = _INFO_EXIT.to_bytes(8, "little")
    try:
        fcntl.ioctl(pidfd, _PIDFD_GET_INFO, info)
    except OSError:
        return None
    if not int.from_bytes(info[:8], "little") & _INFO_EXIT:
        return None
    return int.from_bytes(info[60:64], "little", signed=True)
