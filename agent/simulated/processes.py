"""Simulated nodes in several processes, since one event loop carries some thousands of streams.

Each process writes its figures as a line of JSON once a second, and ends when its standard input
does: with the one that started it, however that ends.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Self

import msgspec

from orchgit.child import bare_environment
from orchgit.errors import OrchgitError
from orchgit.wire.tls import TlsFiles

_STOP_S = 10.0


class SimulatedFigures(msgspec.Struct, kw_only=True, frozen=True):
    """What the nodes of a process are doing. `losses` counts the connections that ended, `cpu_s`
    and `rss_bytes` are the process's own, the latter
    the most it has had."""

    nodes: int = 0
    connected: int = 0
    losses: int = 0
    running: int = 0
    cpu_s: float = 0.0
    rss_bytes: int = 0

    def __add__(self, other: SimulatedFigures) -> SimulatedFigures:
        names = self.__struct_fields__
        return SimulatedFigures(**{n: getattr(self, n) + getattr(other, n) for n in names})


class SimulatedProcesses:
    """The processes of `nodes` simulated nodes. Raises OrchgitError once one of them has ended."""

    def __init__(
        self,
        servers: Sequence[str],
        nodes: int,
        processes: int,
        datacenters: Sequence[str],
        tls: TlsFiles | None = None,
    ) -> None:
        self._commands = [
            [
                *(sys.executable, "-m", "agent.simulated", "--reports"),
                *("--servers", ",".join(servers), "--datacenters", ",".join(datacenters)),
                *("--first", str(first), "--nodes", str(min(each, nodes - first))),
                *([] if tls is None else ["--tls", str(tls.ca), str(tls.cert), str(tls.key)]),
            ]
            for each in [-(-nodes // processes)]
            for first in range(0, nodes, each)
        ]
        self._processes: list[_Process] = []

    def __enter__(self) -> Self:
        self._processes = [_Process(command) for command in self._commands]
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._processes:
            each.close()
        for each in self._processes:
            each.wait()

    def figures(self) -> SimulatedFigures:
        """Returns the newest figures of all processes together."""
        return sum((each.figures() for each in self._processes), SimulatedFigures())


class _Process:
    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=bare_environment(),
        )
        self._newest = SimulatedFigures()
        self._last_error = b""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._stdout, self._stderr = self._process.stdout, self._process.stderr
        self._readers = [
            threading.Thread(target=self._read_figures, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for each in self._readers:
            each.start()

    def _read_figures(self) -> None:
        for line in self._stdout:
            self._newest = msgspec.json.decode(line, type=SimulatedFigures)

    def _read_errors(self) -> None:
        for line in self._stderr:
            self._last_error = line

    def figures(self) -> SimulatedFigures:
        if (code := self._process.poll()) is not None:
            self._readers[1].join()
            why = self._last_error.decode("utf-8", "replace").strip() or f"exit code {code}"
            raise OrchgitError(f"cannot go on: a process of simulated nodes ended ({why})")
        return self._newest

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> None:
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for reader, pipe in zip(self._readers, (self._stdout, self._stderr), strict=True):
            reader.join()
            pipe.close()
