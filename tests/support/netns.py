"""A network of the test's own: a bridge in one network namespace, hosts in others around it.

Nothing of it is in the machine's own namespace, so parallel runs cannot collide, and no rule of
the machine's firewall has a say. A process of the test reaches it by sockets that are made inside
(`Network.socket_at`), for a socket stays in the namespace that it was made in.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

from tests.support.polling import until_blocking

_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)
_PREFIX = "10.66.0."
_HUB_NUMBER = 254
HUB = "hub"


def missing() -> str | None:
    """Why this machine cannot have network namespaces; None if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = f"og-{uuid.uuid4().hex[:8]}-probe"
    try:
        _ip("netns", "add", name)
        _ip("-n", name, "link", "add", "name", "bridge0", "type", "bridge")
        _ip("-n", name, "link", "add", "name", "v0", "type", "veth", "peer", "name", "v1")
    except FileNotFoundError:
        return "network namespaces need the ip command (package iproute2)"
    except subprocess.CalledProcessError as error:
        return f"no network namespaces with veth and bridge here: {error.stderr.strip()}"
    finally:
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            _ip("netns", "del", name)
    return None


class Network:
    """Hosts are named by the caller; the hub is where the test's own sockets are."""

    def __init__(self) -> None:
        self._id = f"og-{uuid.uuid4().hex[:8]}"
        self._hosts: dict[str, str] = {}
        self._here = os.open(f"/proc/{os.getpid()}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        hub = self.namespace(HUB)
        _ip("netns", "add", hub)
        _ip("-n", hub, "link", "set", "lo", "up")
        _ip("-n", hub, "link", "add", "name", "br0", "type", "bridge")
        _ip("-n", hub, "addr", "add", f"{_PREFIX}{_HUB_NUMBER}/24", "dev", "br0")
        _ip("-n", hub, "link", "set", "br0", "up")

    def namespace(self, host: str) -> str:
        return f"{self._id}-{host}"

    def address(self, host: str) -> str:
        return self._hosts[host]

    def add_host(self, host: str, number: int) -> str:
        """Its address."""
        name, hub = self.namespace(host), self.namespace(HUB)
        port = f"to-{host}"
        _ip("netns", "add", name)
        _ip("-n", name, "link", "set", "lo", "up")
        _ip(
            "-n",
            hub,
            "link",
            "add",
            "name",
            port,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            name,
        )
        _ip("-n", hub, "link", "set", port, "master", "br0", "up")
        _ip("-n", name, "addr", "add", f"{_PREFIX}{number}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        with self._inside(host):
            # It must not answer for addresses that are claimed on its loop-back.
            Path("/proc/sys/net/ipv4/conf/all/arp_ignore").write_text("1")
        self._hosts[host] = f"{_PREFIX}{number}"
        return self._hosts[host]

    def claim(self, host: str, address: str) -> None:
        """At `host`, that address of another one is here: a proxy can take its connections."""
        _ip("-n", self.namespace(host), "addr", "add", f"{address}/32", "dev", "lo")

    def set_link(self, host: str, up: bool) -> None:
        """Plug the host's cable in or out."""
        _ip("-n", self.namespace(HUB), "link", "set", f"to-{host}", "up" if up else "down")

    def socket_at(self, host: str) -> socket.socket:
        """A TCP socket of that host (or of the hub), not blocking."""
        with self._inside(host):
            made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def command(self, host: str, *arguments: str) -> list[str]:
        """What runs a program on that host."""
        return ["nsenter", f"--net=/run/netns/{self.namespace(host)}", *arguments]

    def pids(self, host: str) -> list[int]:
        """Every process of that host, whoever started it."""
        return [int(one) for one in _ip("netns", "pids", self.namespace(host)).split()]

    def close(self) -> None:
        """Kill what runs on the hosts, and leave nothing."""
        for host in [*self._hosts, HUB]:
            with contextlib.suppress(subprocess.CalledProcessError):
                self._end_processes(host)
                _ip("netns", "del", self.namespace(host))
        os.close(self._here)

    def _end_processes(self, host: str) -> None:
        def ended() -> bool:
            pids = self.pids(host)
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not pids

        until_blocking(ended, 60.0, f"processes on {host} do not end")

    @contextlib.contextmanager
    def _inside(self, host: str) -> Iterator[None]:
        """This thread, and no other, is in that namespace."""
        with _THREAD_MOVES:
            fd = os.open(Path("/run/netns") / self.namespace(host), os.O_RDONLY | os.O_CLOEXEC)
            try:
                _enter(fd)
                yield
            finally:
                _enter(self._here)
                os.close(fd)


_THREAD_MOVES = threading.Lock()


def _enter(fd: int) -> None:
    if _LIBC.setns(fd, _CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"cannot enter a network namespace: {os.strerror(code)}")


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
    return done.stdout
