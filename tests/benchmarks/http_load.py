"""Writes over HTTP from many clients, one kept connection each; in a process of its own.

    python -m tests.benchmarks.http_load HOST:PORT --kind var --clients 16 --seconds 5

`var` puts small variables, `job` registers new jobs. One line of JSON; `load_cpu` is what the
clients themselves took of one core.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
import uuid
from collections.abc import Callable, Iterator

from tests.support.raw_http import RawConnection

Request = tuple[str, bytes]
_VARIABLES = 1000


def variables(client: int) -> Iterator[Request]:
    """Each client goes round over paths of its own."""
    while True:
        for number in range(_VARIABLES):
            yield f"/v1/var/load/{client}/{number}", b'{"Items":{"value":"%d"}}' % number


def jobs(client: int) -> Iterator[Request]:
    """Each job is new: one group of one task, for which there is no node."""
    run, number = uuid.uuid4().hex[:8], 0
    template = _job_body()
    while True:
        number += 1
        yield "/v1/jobs", template.replace(_ID, f"load-{run}-{client}-{number}".encode())


_ID = b"THE-ID"


def _job_body() -> bytes:
    task = {
        "Name": "main",
        "Driver": "raw_exec",
        "Config": {"command": "/bin/true"},
        "Resources": {"CPU": 20, "MemoryMB": 16},
    }
    group = {"Name": "main", "Count": 1, "Tasks": [task]}
    name = _ID.decode()
    job = {
        "ID": name,
        "Name": name,
        "Type": "batch",
        "Datacenters": ["*"],
        "TaskGroups": [group],
    }
    return json.dumps({"Job": job}).encode()


KINDS: dict[str, Callable[[int], Iterator[Request]]] = {"var": variables, "job": jobs}


async def load(
    address: tuple[str, int], kind: str, clients: int, seconds: float
) -> dict[str, object]:
    latencies_s: list[float] = []
    connections = [await RawConnection.open(address) for _ in range(clients)]
    requests = [KINDS[kind](number) for number in range(clients)]
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    end_s = began_s + seconds

    async def client(connection: RawConnection, source: Iterator[Request]) -> None:
        while (begin_s := time.perf_counter()) < end_s:
            path, body = next(source)
            answer = await connection.request("PUT", path, body)
            if answer.status != 200:
                raise RuntimeError(f"{path}: {answer.status} {answer.text}")
            latencies_s.append(time.perf_counter() - begin_s)

    await asyncio.gather(*(client(*one) for one in zip(connections, requests, strict=True)))
    took_s = time.perf_counter() - began_s
    latencies_s.sort()
    return {
        "clients": clients,
        "writes_per_s": round(len(latencies_s) / took_s),
        "p50_ms": round(latencies_s[len(latencies_s) // 2] * 1e3, 2),
        "p99_ms": round(latencies_s[len(latencies_s) * 99 // 100] * 1e3, 2),
        "load_cpu": round((time.process_time() - began_cpu_s) / took_s, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--kind", choices=sorted(KINDS), default="var")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    host, _, port = arguments.address.rpartition(":")
    work = load((host, int(port)), arguments.kind, arguments.clients, arguments.seconds)
    print(json.dumps(asyncio.run(work)))


if __name__ == "__main__":
    main()
