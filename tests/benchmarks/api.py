"""Reads over HTTP: one job, lists of 1, 500 and 10,000 jobs and allocations, filtered and paged,
also right after a change, blocking queries, event streams.

    python -m tests.benchmarks.api --jobs 500 10000 --allocations 200 10000 --seconds 3
    python -m tests.benchmarks.api --peer http://127.0.0.1:4747     # another server, asked the same

One line of JSON for each figure. The load comes from this process, which asks on several
connections in turn and looks at nothing but the status; it needs the second core. The allocations
are those of simulated nodes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import selectors
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil

from agent.simulated.processes import SimulatedProcesses
from tests.benchmarks.report import print_figure, print_times
from tests.support.dev_server import dev_server
from tests.support.pacing import pause_blocking
from tests.support.polling import until_blocking
from tests.support.raw_http import RawConnection

CONNECTIONS = 16
BUDGETS = {"one job": 20_600, "list of 1": 25_700, "list of 501": 290}
"""Requests per second of Nomad on two cores."""
CHANGED_S_PER_JOB = 1 / 290 / 501
"""Nomad's time for a list, which it encodes anew for each reader."""
WAKE_P99_S = 0.05


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    pid: int | None
    """None for a server that was running before."""

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "127.0.0.1", parts.port or 4646


def job(number: int, priority: int = 50) -> bytes:
    """A job for which there is no node."""
    task = {"Name": "main", "Driver": "raw_exec", "Config": {"command": "/bin/true"}}
    group = {"Name": "main", "Count": 1, "Tasks": [task]}
    name = f"read-{number:05d}"
    body: dict[str, object] = {
        **{"ID": name, "Name": name, "Type": "batch"},
        "Datacenters": ["nowhere"],
    }
    return json.dumps({"Job": {**body, "Priority": priority, "TaskGroups": [group]}}).encode()


def register(server: Server, numbers: range) -> None:
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as client:
        for number in numbers:
            client.put("/v1/jobs", content=job(number)).raise_for_status()


def requests_per_s(server: Server, path: str, seconds: float) -> float:
    """Asks on `CONNECTIONS` connections, one request under way on each."""
    host = ":".join(map(str, server.address))
    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    waiting = selectors.DefaultSelector()
    sockets = [socket.create_connection(server.address) for _ in range(CONNECTIONS)]
    size = _answer_bytes(sockets[0], request)
    left = {}
    for each in sockets:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        waiting.register(each, selectors.EVENT_READ)
        each.sendall(request)
        left[each.fileno()] = size
    done, began_s = 0, time.perf_counter()
    while time.perf_counter() - began_s < seconds:
        for key, _ in waiting.select():
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            left[key.fd] -= len(sock.recv(1 << 18))
            if left[key.fd] <= 0:
                done += 1
                left[key.fd] = size
                sock.send(request)
    elapsed_s = time.perf_counter() - began_s
    for each in sockets:
        each.close()
    return done / elapsed_s


def seconds_after_a_change(server: Server, path: str, rounds: int) -> list[float]:
    """Returns the times of reads, each of which is the first one after a job was registered: no
    answer that was encoded before can be given again."""
    times_s = []
    plain = {"Accept-Encoding": "identity"}
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False, headers=plain) as client:
        for number in range(rounds):
            client.put("/v1/jobs", content=job(0, priority=1 + number % 50)).raise_for_status()
            began_s = time.perf_counter()
            client.get(path).raise_for_status()
            times_s.append(time.perf_counter() - began_s)
    return times_s


def _answer_bytes(sock: socket.socket, request: bytes) -> int:
    """Asks twice; the size of the second answer, which is that of those to come."""
    size = 0
    for _ in range(2):
        sock.sendall(request)
        got = b""
        while b"\r\n\r\n" not in got:
            got += sock.recv(1 << 18)
        head, _, body = got.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(body) < length:
            body += sock.recv(1 << 18)
        size = len(head) + 4 + length
    return size


def wake_up(server: Server, waiters: int, rounds: int) -> tuple[list[float], float]:
    """Returns (seconds from the answer to a change of a job until each waiter has its answer, share
    of a core that the server takes while nothing happens). The waiters are bare sockets, so that
    the time is that of the server."""
    host = ":".join(map(str, server.address))
    waiting = selectors.DefaultSelector()
    sockets = [socket_of_client(number) for number in range(waiters)]
    for each in sockets:
        each.setblocking(True)
        each.connect(server.address)
        waiting.register(each, selectors.EVENT_READ)
    times_s: list[float] = []
    idle_share = 0.0
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as client:
        for number in range(rounds):
            index = client.get("/v1/jobs").headers["X-Nomad-Index"]
            path = f"/v1/jobs?index={index}&wait=60s&prefix=read-0000"
            for each in sockets:
                each.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            pause_blocking(2.0, "every query waits")
            if number == 0:
                began_s, began_cpu_s = time.perf_counter(), cpu_s(server)
                pause_blocking(5.0, "the span in which nothing happens")
                idle_share = (cpu_s(server) - began_cpu_s) / (time.perf_counter() - began_s)
            client.put("/v1/jobs", content=job(0, priority=60 + number)).raise_for_status()
            times_s += _answers_s(waiting, waiters)
    for each in sockets:
        each.close()
    return times_s, idle_share


def _answers_s(waiting: selectors.BaseSelector, count: int) -> list[float]:
    """Returns the seconds from now until each of `count` sockets has its whole answer."""
    got: dict[int, bytes] = {}
    times_s: list[float] = []
    began_s = time.perf_counter()
    while len(times_s) < count:
        for key, _ in waiting.select():
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            got[key.fd] = answer = got.get(key.fd, b"") + sock.recv(1 << 18)
            head, blank, body = answer.partition(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            if blank and len(body) == int(length):
                times_s.append(time.perf_counter() - began_s)
                if not head.startswith(b"HTTP/1.1 200"):
                    raise RuntimeError(head.decode())
    return times_s


async def event_streams(server: Server, streams: int) -> list[float]:
    """Returns the seconds from the answer to a change of a job until each stream has its event."""
    host = ":".join(map(str, server.address))
    opened = []
    for number in range(streams):
        sock = socket_of_client(number)
        await asyncio.get_running_loop().sock_connect(sock, server.address)
        reader, writer = await asyncio.open_connection(sock=sock)
        writer.write(f"GET /v1/event/stream?topic=Job HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        await reader.readuntil(b"{}")
        opened.append((reader, writer))
    changer = await RawConnection.open(server.address)
    await changer.request("PUT", "/v1/jobs", job(0, priority=90))
    changed_s = time.perf_counter()
    times_s: list[float] = []

    async def heard(reader: asyncio.StreamReader) -> None:
        await reader.readuntil(b'"Topic":"Job"')
        times_s.append(time.perf_counter() - changed_s)

    await asyncio.gather(*(heard(reader) for reader, _ in opened))
    for _, writer in opened:
        writer.close()
    changer.close()
    return times_s


def run_allocations(server: Server, wanted: Sequence[int], seconds: float) -> bool:
    """Reports lists of so many allocations, which run on simulated nodes."""
    resources = {"CPU": 1, "MemoryMB": 10}
    logs = {"MaxFiles": 1, "MaxFileSizeMB": 1}
    task: dict[str, object] = {"Name": "main", "Driver": "mock_driver", "LogConfig": logs}
    task["Resources"] = resources
    constraint = {"LTarget": "${meta.simulated}", "RTarget": "true", "Operand": "="}
    all_good = True
    with (
        httpx.Client(base_url=server.url, timeout=60, trust_env=False) as client,
        SimulatedProcesses([client.get("/v1/status/leader").json()], 100, 1, ["dc1"]) as nodes,
    ):
        for count in wanted:
            group: dict[str, object] = {"Name": "main", "Count": count, "Tasks": [task]}
            group["EphemeralDisk"] = {"SizeMB": 10}
            body: dict[str, object] = {"ID": "many", "Name": "many", "Type": "batch"}
            body |= {"Datacenters": ["*"], "Constraints": [constraint], "TaskGroups": [group]}
            answer = client.put("/v1/jobs", json={"Job": body})
            if answer.status_code != 200:
                raise RuntimeError(answer.text)
            until_blocking(partial(_run, nodes, count), 120, f"{count} allocations run")
            pause_blocking(2.0, "evaluations end")
            figures = [
                (f"list of {count} allocations", "/v1/allocations"),
                (f"page of 50 of {count} allocations", "/v1/allocations?per_page=50"),
            ]
            all_good &= report(server, figures, seconds)
    return all_good


def _run(nodes: SimulatedProcesses, count: int) -> bool:
    return nodes.figures().running == count


def socket_of_client(number: int) -> socket.socket:
    """Of one of many machines, since a server limits the connections of each."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    made.setblocking(False)
    made.bind((f"127.0.1.{1 + number // 50}", 0))
    return made


def cpu_s(server: Server) -> float:
    """What the server and its workers took so far; 0 for a peer."""
    if server.pid is None:
        return 0.0
    own = psutil.Process(server.pid)
    times = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return sum(each.user + each.system for each in times)


@contextmanager
def serving(peer: str | None) -> Iterator[Server]:
    if peer:
        yield Server(peer, None)
        return
    with (
        tempfile.TemporaryDirectory() as data_dir,
        dev_server(Path(data_dir), "-no-demo") as dev,
    ):
        yield Server(dev.address, dev.pid)


def main() -> bool:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer")
    parser.add_argument("--jobs", type=int, nargs="+", default=[500, 10_000])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--waiters", type=int, default=1000)
    parser.add_argument("--streams", type=int, default=300)
    parser.add_argument("--allocations", type=int, nargs="+", default=[200, 10_000])
    options = parser.parse_args()
    with serving(options.peer) as server:
        register(server, range(1))
        pause_blocking(1.0, "evaluations end")
        prefix = "read-0"
        figures: list[tuple[str, str]] = [
            ("one job", "/v1/job/read-00000"),
            ("list of 1", f"/v1/jobs?prefix={prefix}"),
        ]
        all_good = report(server, figures, options.seconds)
        registered = 1
        for count in options.jobs:
            register(server, range(registered, count + 1))
            registered = count + 1
            pause_blocking(2.0, "evaluations end")
            figures = [
                (f"list of {registered}", f"/v1/jobs?prefix={prefix}"),
                (
                    f"filtered, of {registered}",
                    f"/v1/jobs?prefix={prefix}&filter=ID+matches+%22read-000%22",
                ),
                (f"page of 50 of {registered}", f"/v1/jobs?prefix={prefix}&per_page=50"),
            ]
            all_good &= report(server, figures, options.seconds)
            changed_s = seconds_after_a_change(server, f"/v1/jobs?prefix={prefix}", 30)
            all_good &= print_times(
                f"list of {registered} after a change",
                changed_s,
                registered * CHANGED_S_PER_JOB,
            )
        times_s, idle_share = wake_up(server, options.waiters, 3)
        p99_s = statistics.quantiles(times_s, n=100)[-1]
        all_good &= print_figure(
            "blocking queries",
            p99_s <= WAKE_P99_S,
            waiters=options.waiters,
            wake_up_p50_s=round(statistics.median(times_s), 4),
            wake_up_p99_s=round(p99_s, 4),
            budget_p99_s=WAKE_P99_S,
            idle_share_of_a_core=round(idle_share, 4),
        )
        streamed_s = asyncio.run(event_streams(server, options.streams))
        print_figure(
            "event streams",
            True,
            streams=options.streams,
            event_p50_s=round(statistics.median(streamed_s), 4),
            event_max_s=round(max(streamed_s), 4),
        )
    if options.peer is None:
        with serving(None) as server:
            all_good &= run_allocations(server, options.allocations, options.seconds)
    return all_good


def report(server: Server, figures: Sequence[tuple[str, str]], seconds: float) -> bool:
    good = True
    for name, path in figures:
        rate, budget = requests_per_s(server, path, seconds), BUDGETS.get(name)
        good &= print_figure(
            name, budget is None or rate >= budget, per_s=round(rate), budget_per_s=budget
        )
    return good


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
