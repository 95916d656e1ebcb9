"""How long each read holds the server's event loop: `python -m tests.benchmarks.loop_holds`.

One server with `--jobs` jobs, `--allocations` allocations, an evaluation, a deployment, a variable
and a service per job, a job of `--jobs` allocations and one that was dispatched `--jobs` times.
Every read is asked three times. A line of JSON for each says the most processor time that one step
of the loop took meanwhile (the least of the three), and the time of the whole answer, both in
milliseconds. Ends with status 1 if a step took more than `--most-ms`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from contextvars import Context
from pathlib import Path
from typing import Any

from orchgit.collector import settle_collector
from tests.benchmarks.report import print_figure
from tests.support.many_objects import fill, reads
from tests.support.server_rig import ServerRig

_TRIES = 3
_NODES = 1000


class TimedLoop(asyncio.SelectorEventLoop):
    """Knows the most processor time that one of its callbacks took since `most_s` was set to 0."""

    most_s = 0.0

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return super().call_soon(self._timed, callback, *args, context=context)

    def _timed(self, callback: Callable[..., object], *args: Any) -> None:
        began_s = time.thread_time()
        callback(*args)
        self.most_s = max(self.most_s, time.thread_time() - began_s)


def _measure(rig: ServerRig, loop: TimedLoop, most_ms: float) -> bool:
    is_within = True
    with rig.server.services.context.snapshot() as snapshot:
        asked = list(reads(snapshot))
    for method, path, body in asked:
        holds_s, whole_s, status, size = [], [], 0, 0
        for _ in range(_TRIES):
            loop.most_s = 0.0
            began_s = time.perf_counter()
            answer = rig.http.request(method, path, json=body, timeout=300)
            whole_s.append(time.perf_counter() - began_s)
            holds_s.append(loop.most_s)
            status, size = answer.status_code, len(answer.content)
        hold_ms = min(holds_s) * 1000
        is_within &= print_figure(
            f"{method} {path}",
            hold_ms <= most_ms,
            hold_ms=round(hold_ms, 1),
            most_hold_ms=round(max(holds_s) * 1000, 1),
            whole_ms=round(min(whole_s) * 1000, 1),
            status=status,
            kib=size >> 10,
        )
    return is_within


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--allocations", type=int, default=100_000)
    parser.add_argument("--most-ms", type=float, default=50.0)
    options = parser.parse_args()
    loop = TimedLoop()
    with tempfile.TemporaryDirectory() as directory:
        rig = ServerRig(Path(directory), with_agent=False, loop=loop, num_schedulers=0)
        rig.start()
        settle_collector()  # as the process of a server does
        context = rig.server.services.context
        filling = fill(context, options.jobs, options.allocations, _NODES)
        asyncio.run_coroutine_threadsafe(filling, loop).result()
        is_within = _measure(rig, loop, options.most_ms)
        rig.stop()
    sys.exit(0 if is_within else 1)


if __name__ == "__main__":
    main()
