"""Ports of this machine for servers of tests."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket

_FIRST = 10_000
_PROCESSES = 8
_EACH = 1_250
"""Below those that jobs are given (from 20,000) and that the system takes for connections that go
out (from 32,768), so that nothing takes one between now and its use, or while its server is being
started again. Each process of the suite has some of its own."""


def _own_range() -> int:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    number = int(worker) if worker else os.getpid()
    return _FIRST + number % _PROCESSES * _EACH


# Not from the first on: what the run before this one used may still be in use.
_turns = itertools.count(os.getpid())


def free_ports(count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        port = _own_range() + next(_turns) % _EACH
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
    return found


def free_addresses(count: int) -> list[str]:
    return [f"127.0.0.1:{port}" for port in free_ports(count)]
