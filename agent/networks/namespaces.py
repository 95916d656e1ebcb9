"""Network namespaces that live without a process: each is mounted on a file.

A thread of its own makes one, since unshare(2) changes the calling thread alone; the thread ends
afterwards, and the mount keeps the namespace. Needs root.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import threading
from concurrent.futures import Future
from pathlib import Path

from orchgit.errors import DriverError

_CLONE_NEWNET = 0x40000000
_MS_BIND, _MNT_DETACH = 4096, 2
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_LOOPBACK = b"lo"
_NSFS_MAGIC = 0x6E736673
_STATFS_BYTES = 256


async def create(path: Path) -> None:
    """Make a namespace at `path`, with its loopback interface up; one that is there is kept.

    DriverError when the kernel refuses.
    """
    if exists(path):
        return
    done: Future[None] = Future()
    threading.Thread(target=_create, args=(path, done), name="network-namespace").start()
    try:
        await asyncio.wrap_future(done)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink()
        raise DriverError(f"cannot make a network namespace: {error}", recoverable=True) from None


def exists(path: str | Path) -> bool:
    """Whether a namespace is mounted on the file. A namespace of a process (`/proc/PID/ns/net`)
    counts too."""
    return identity(path) != ""


def identity(path: str | Path) -> str:
    """A name of the namespace at `path` that no other namespace has as long as it lives; "" where
    there is none."""
    file_system = ctypes.create_string_buffer(_STATFS_BYTES)
    try:
        found = os.stat(path)
        if _libc().statfs(os.fsencode(path), file_system) != 0:
            return ""
    except OSError:
        return ""
    kind = ctypes.c_long.from_buffer(file_system).value  # the first field of struct statfs
    return f"{found.st_dev}:{found.st_ino}" if kind == _NSFS_MAGIC else ""


def remove(path: Path) -> None:
    """Unmount and delete the file; the namespace goes with its last process. May be repeated."""
    while exists(path):
        if _libc().umount2(os.fsencode(path), _MNT_DETACH) != 0:
            raise _last_error(path)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def _create(path: Path, done: Future[None]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o711)
        path.touch(mode=0o444)
        libc = _libc()
        if libc.unshare(_CLONE_NEWNET) != 0:
            raise _last_error(path)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            request = struct.pack("16sH22x", _LOOPBACK, 0)
            (flags,) = struct.unpack("16xH22x", fcntl.ioctl(control, _SIOCGIFFLAGS, request))
            request = struct.pack("16sH22x", _LOOPBACK, flags | _IFF_UP)
            fcntl.ioctl(control, _SIOCSIFFLAGS, request)
        own = f"/proc/self/task/{threading.get_native_id()}/ns/net"
        if libc.mount(os.fsencode(own), os.fsencode(path), b"none", _MS_BIND, None) != 0:
            raise _last_error(path)
    except BaseException as error:  # noqa: BLE001 -- the caller waits for it
        done.set_exception(error)
    else:
        done.set_result(None)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _last_error(path: str | Path) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), str(path))
