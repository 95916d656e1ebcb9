"""Confining the fetching process: another user, no new privileges, limits, and Landlock.

Each step that the kernel or the agent's own privileges do not allow is left out: an agent that is
not root cannot change its user, and a kernel before 5.13 has no Landlock. The others still hold.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import ssl
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PR_SET_NO_NEW_PRIVS = 38
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULESET_VERSION = 1
_CLONE_NEWNS, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x20000, 0x1000, 0x4000, 1 << 18
_REACHABLE = "/tmp"  # noqa: S108 - a place that every system has, covered by the mount
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_RIGHTS_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_READ_ONLY = (
    "/usr",
    "/lib",
    "/lib64",
    "/bin",
    "/sbin",
    "/etc",
    "/opt",
    "/nix",
    "/run/systemd/resolve",
)
_DEVICES = ("/dev/null", "/dev/urandom")
_MAX_MEMORY_BYTES = 1 << 30
_MAX_OPEN_FILES = 128
_MAX_GIT_MEMORY_BYTES = 4 << 30
_MAX_GIT_OPEN_FILES = 1024


class _Ruleset(ctypes.Structure):
    _fields_ = [("handled_access_fs", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


def move_to_reachable_path() -> None:
    """Gives the working directory a path that any user may walk.

    git looks up where it is from the root on, and `confine` takes away the right to pass the
    agent's closed directories. A mount of this process's own gives the directory a second path; on
    a system that refuses, the working directory keeps its path.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if (
        libc.unshare(_CLONE_NEWNS) == 0
        and libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None) == 0
        and libc.mount(b".", _REACHABLE.encode(), None, _MS_BIND, None) == 0
    ):
        os.chdir(_REACHABLE)


@dataclass(frozen=True, slots=True)
class Allowed:
    """What one fetch needs beyond the usual."""

    programs: bool = False
    """git, and what git starts, of the system's directories."""
    isolated: bool = True
    paths: tuple[str, ...] = ()
    """`f:r:/path` or `d:rx:/path`, as `client.artifact.filesystem_isolation_extra_paths`."""


def confine(
    directory_fd: int,
    user: tuple[int, int] | None,
    max_file_bytes: int,
    allowed: Allowed = Allowed(),
) -> None:
    """After this the process writes below `directory_fd` only, starts no program that is not
    allowed, and has the rights of `user` (uid, gid), or its own where `user` is None."""
    memory = _MAX_GIT_MEMORY_BYTES if allowed.programs else _MAX_MEMORY_BYTES
    files = _MAX_GIT_OPEN_FILES if allowed.programs else _MAX_OPEN_FILES
    for which, value in (
        (resource.RLIMIT_FSIZE, max_file_bytes),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_NOFILE, files),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(which)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if allowed.isolated:
        _landlock(libc, directory_fd, allowed)
    if user is not None:
        uid, gid = user
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    if not allowed.programs:
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def _landlock(libc: ctypes.CDLL, directory_fd: int, allowed: Allowed) -> None:
    version = libc.syscall(_CREATE_RULESET, None, 0, _RULESET_VERSION)
    if version < 1:
        return
    rights = max(bits for since, bits in _RIGHTS_BY_VERSION.items() if since <= version)
    ruleset = _Ruleset(rights)
    ruleset_fd = libc.syscall(_CREATE_RULESET, ctypes.byref(ruleset), ctypes.sizeof(ruleset), 0)
    if ruleset_fd < 0:
        return
    try:
        _allow(libc, ruleset_fd, directory_fd, rights & ~_EXECUTE)
        for path, more in (*_readable(allowed), *map(_extra_path, allowed.paths)):
            with contextlib.suppress(OSError):
                fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
                reading = _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0)
                _allow(libc, ruleset_fd, fd, reading | more)
                os.close(fd)
        libc.syscall(_RESTRICT_SELF, ruleset_fd, 0)
    finally:
        os.close(ruleset_fd)


def _readable(allowed: Allowed) -> Iterable[tuple[str, int]]:
    """Libraries, certificates, and the files that name resolution reads, with further rights."""
    certificates = ssl.get_default_verify_paths()
    named = (certificates.cafile, certificates.capath)
    package = str(Path(__file__).resolve().parents[2])
    running = _EXECUTE if allowed.programs else 0
    return (
        *((path, running) for path in _READ_ONLY),
        *((path, _WRITE_FILE) for path in _DEVICES),
        *((path, 0) for path in (sys.prefix, sys.base_prefix, package)),
        *((path, 0) for path in named if path),
    )


def _extra_path(text: str) -> tuple[str, int]:
    _, modes, path = text.split(":", 2)
    rights = {"r": 0, "x": _EXECUTE, "w": _WRITE_FILE}
    return path, sum(rights.get(mode, 0) for mode in set(modes))


def _allow(libc: ctypes.CDLL, ruleset_fd: int, path_fd: int, access: int) -> None:
    rule = _PathBeneath(access, path_fd)
    if libc.syscall(_ADD_RULE, ruleset_fd, _PATH_BENEATH, ctypes.byref(rule), 0) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
