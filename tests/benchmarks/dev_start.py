"""Start of `orchgit dev` to a ready node (budget 1.5 s), and idle memory (PSS of all processes).

python -m tests.benchmarks.dev_start [--starts 5]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import psutil

from tests.support.dev_server import DevServer
from tests.support.pacing import pause_blocking

READY_BUDGET_S = 1.5
MEMORY_BUDGET_MB = 128
IDLE_S = 3


def family(pid: int, data_dir: Path) -> list[psutil.Process]:
    """The server, its children, and the node's supervisor."""
    server = psutil.Process(pid)
    found = {server.pid: server, **{child.pid: child for child in server.children(recursive=True)}}
    for process in psutil.process_iter(["cmdline"]):
        if str(data_dir) in " ".join(process.info["cmdline"] or []) and process.pid != os.getpid():
            found[process.pid] = process
    return list(found.values())


def measure(starts: int) -> dict[str, object]:
    took, memory, parts = [], [], {}
    for _ in range(starts):
        with tempfile.TemporaryDirectory() as text:
            data_dir = Path(text) / "data"
            server = DevServer(data_dir, "-no-demo")
            began = time.monotonic()
            try:
                server.start()
                took.append(time.monotonic() - began)
                pause_blocking(IDLE_S, "the server becomes idle")
                processes = family(server.pid, data_dir)
                sizes = {each: each.memory_full_info().pss / 2**20 for each in processes}
                memory.append(sum(sizes.values()))
                parts = {
                    f"{each.pid} {' '.join(each.cmdline())[-60:]}": round(size, 1)
                    for each, size in sizes.items()
                }
            finally:
                server.cleanup()
    return {
        "benchmark": "dev_start",
        "starts": starts,
        "ready_p50_s": round(statistics.median(took), 3),
        "ready_budget_s": READY_BUDGET_S,
        "idle_pss_mb": round(statistics.median(memory), 1),
        "idle_budget_mb": MEMORY_BUDGET_MB,
        "parts": parts,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=5)
    print(json.dumps(measure(parser.parse_args().starts)))


if __name__ == "__main__":
    main()
