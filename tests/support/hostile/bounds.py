"""What others notice of a case: the wait of another client's requests, and all memory taken.

A busy machine makes everybody wait, so the longest wait counts from what this process had to wait
for the processor at the same time, and a case is tried again before it is blamed.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx
import psutil

MAX_WAIT_S = 0.1
MAX_MEMORY_BYTES = 300 << 20
TRIES = 4
_HOPS = 4
"""A request and its answer wait for the processor so often: client, server, and back."""
T = TypeVar("T")


@dataclass
class Noticed:
    """`wait_s` is a request's longest, `own_wait_s` that of a sleep in this process."""

    wait_s: float = 0.0
    own_wait_s: float = 0.0
    memory_bytes: int = 0

    @property
    def is_bearable(self) -> bool:
        wait_s = self.wait_s - _HOPS * self.own_wait_s
        return wait_s <= MAX_WAIT_S and self.memory_bytes <= MAX_MEMORY_BYTES


def family(pid: int, data_dir: Path) -> list[psutil.Process]:
    """A server, its children, and the node's supervisor."""
    server = psutil.Process(pid)
    found = {server.pid: server, **{child.pid: child for child in server.children(recursive=True)}}
    for process in psutil.process_iter(["cmdline"]):
        if str(data_dir) in " ".join(process.info["cmdline"] or []) and process.pid != os.getpid():
            found[process.pid] = process
    return list(found.values())


def memory_of(processes: list[psutil.Process]) -> int:
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            total += process.memory_full_info().uss
    return total


@contextlib.contextmanager
def watching(address: str, pid: int, data_dir: Path) -> Iterator[Noticed]:
    """Measures while the block runs; the memory is what is taken beyond that at the beginning."""
    noticed, done = Noticed(), threading.Event()
    before = memory_of(family(pid, data_dir))

    def ask() -> None:
        with httpx.Client(base_url=address, trust_env=False, timeout=60) as client:
            client.get("/v1/status/leader")
            while not done.is_set():
                began = time.monotonic()
                client.get("/v1/status/leader")
                noticed.wait_s = max(noticed.wait_s, time.monotonic() - began)
                done.wait(0.01)

    def tick() -> None:
        while not done.is_set():
            began = time.monotonic()
            done.wait(0.005)
            noticed.own_wait_s = max(noticed.own_wait_s, time.monotonic() - began - 0.005)

    def weigh() -> None:
        while not done.is_set():
            taken = memory_of(family(pid, data_dir)) - before
            noticed.memory_bytes = max(noticed.memory_bytes, taken)
            done.wait(0.1)

    threads = [threading.Thread(target=each, daemon=True) for each in (ask, tick, weigh)]
    for thread in threads:
        thread.start()
    try:
        yield noticed
    finally:
        done.set()
        for thread in threads:
            thread.join()


def unnoticed(address: str, pid: int, data_dir: Path, work: Callable[[], T]) -> T:
    """Do the work; fails when others notice it at every try. Returns what the last try gave."""
    seen = []
    for _ in range(TRIES):
        with watching(address, pid, data_dir) as noticed:
            result = work()
        if noticed.is_bearable:
            return result
        seen.append(noticed)
    raise AssertionError(f"others noticed it: {seen}")
