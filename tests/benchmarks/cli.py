"""How long commands take beside a bare Python: `python -m tests.benchmarks.cli [--runs 15]`.

`version` may take 80 ms, and a command that asks a server 150 ms more than `python -c pass`. The
exit status is 1 if one takes longer.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VERSION_S = 0.080
HTTP_S = 0.150
COMMANDS = (
    ("status",),
    ("job", "status"),
    ("node", "status"),
    ("eval", "list"),
    ("service", "list"),
    ("volume", "status"),
    ("var", "list"),
    ("source", "list"),
    ("rollout", "list"),
    ("acl", "policy", "list"),
    ("operator", "scheduler", "get-config"),
)


@contextmanager
def empty_cluster() -> Iterator[str]:
    """The address of a server whose every list is empty."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = b"[]"
            if "scheduler" in self.path:
                body = b'{"SchedulerConfig": {"SchedulerAlgorithm": "binpack"}}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def took_s(arguments: list[str], address: str) -> tuple[float, float]:
    """Returns the time that the processor worked for a command, and the time until it ended."""
    environment = {**os.environ, "ORCHGIT_ADDR": address}
    start_s = time.perf_counter()
    process = subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    _, _, usage = os.wait4(process.pid, 0)
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - start_s


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    too_slow = False
    with empty_cluster() as address:
        # The least of several runs: other work on the machine only ever adds to it, and adds more
        # to the time until the end than to processor time, by which the limits are judged.
        def best_s(*words: str) -> tuple[float, float]:
            times = [took_s([sys.executable, *words], address) for _ in range(runs)]
            return min(cpu_s for cpu_s, _ in times), min(wall_s for _, wall_s in times)

        bare_s, _ = best_s("-c", "pass")
        print(f"{'python -c pass':<36} {bare_s * 1000:7.1f} ms")
        for words in (("version",), *COMMANDS):
            least_s, wall_s = best_s("-m", "orchgit", *words)
            limit_s = VERSION_S if words == ("version",) else bare_s + HTTP_S
            verdict = "" if least_s <= limit_s else f"  more than {limit_s * 1000:.0f} ms"
            too_slow = too_slow or bool(verdict)
            print(
                f"{' '.join(words):<36} {least_s * 1000:7.1f} ms of processor time, "
                f"{wall_s * 1000:.1f} ms until the end, "
                f"{least_s / bare_s:.1f} times bare Python{verdict}"
            )
    return 1 if too_slow else 0


if __name__ == "__main__":
    sys.exit(main())
