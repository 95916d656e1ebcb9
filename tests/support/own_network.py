"""A machine's network of the test's own: everything that the test does happens in a namespace.

The test's body runs in a thread of its own that has entered the namespace. Sockets, threads and
processes that it makes are inside too (gRPC in the test's process is not: its threads are older).
What is left of networks of allocations in the end fails the test.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

ADDRESS = "198.51.100.7"
SECOND_ADDRESS = "203.0.113.7"
CNI_PATH = "/usr/lib/cni:/opt/cni/bin"
_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)
_PLUGINS = ("bridge", "firewall", "host-local", "loopback", "portmap")


def missing() -> str:
    """Why this machine cannot have such networks; "" if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "iptables", "nsenter"):
        if shutil.which(program) is None:
            return f"needs the program {program}"
    directories = CNI_PATH.split(":")
    if not all(any(Path(each, name).exists() for each in directories) for name in _PLUGINS):
        return "needs the CNI plugins (package containernetworking-plugins)"
    return ""


needs_networks = pytest.mark.skipif(bool(missing()), reason=missing() or "-")


def in_own_network(body: Callable[[], None]) -> None:
    """Run `body` on a machine with one interface, `eth0` with `ADDRESS` and `SECOND_ADDRESS`."""
    name = f"og-{uuid.uuid4().hex[:8]}-own"
    _ip("netns", "add", name)
    try:
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", "uplink")
        _ip("-n", name, "link", "set", "uplink", "up")
        _ip("-n", name, "addr", "add", f"{ADDRESS}/24", "dev", "eth0")
        _ip("-n", name, "addr", "add", f"{SECOND_ADDRESS}/24", "dev", "eth0")
        _ip("-n", name, "addr", "add", "2001:db8::7/64", "dev", "eth0", "nodad")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("-n", name, "route", "add", "default", "dev", "eth0")
        _run(body, f"/run/netns/{name}")
    finally:
        _ip("netns", "del", name)


def leftovers() -> list[str]:
    """What is left of networks of allocations in the namespace of the caller."""
    links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout
    rules = _rules("filter") + _rules("nat")
    return [
        *(line for line in links.splitlines() if line.startswith("veth")),
        *(rule for rule in rules if " CNI-DN-" in rule or "dnat name" in rule or "/32 " in rule),
    ]


def _rules(table: str) -> list[str]:
    done = subprocess.run(
        ["iptables", "-w", "10", "-t", table, "-S"], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def _run(body: Callable[[], None], path: str) -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            with open(path, "rb") as namespace:
                if _LIBC.setns(namespace.fileno(), _CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "cannot enter the namespace")
            body()
            left = leftovers()
            assert not left, left
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="own-network")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
