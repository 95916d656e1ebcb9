"""The command line of simulated nodes in one process; `orchgit simulate` starts several of them.

`python -m agent.simulated --servers 127.0.0.1:4647 --nodes 1000`
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import resource
import sys
import time
from pathlib import Path

import msgspec

from agent.simulated.nodes import SimulatedConfig, SimulatedNodes
from agent.simulated.processes import SimulatedFigures
from orchgit import logs
from orchgit.wait_first import wait_first
from orchgit.wire.tls import TlsFiles

_REPORT_S = 1.0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run simulated nodes against real servers.")
    parser.add_argument("--servers", required=True, help="host:port of the RPC, comma-separated")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the number of the first node")
    parser.add_argument("--datacenters", default="dc1", help="comma-separated")
    parser.add_argument("--tls", nargs=3, type=Path, metavar=("CA", "CERT", "KEY"))
    parser.add_argument(
        "--reports",
        action="store_true",
        help="figures as a line of JSON each second, until the standard input ends",
    )
    return parser.parse_args()


async def main(arguments: argparse.Namespace) -> None:
    nodes = SimulatedNodes(
        SimulatedConfig(
            servers=tuple(arguments.servers.split(",")),
            nodes=arguments.nodes,
            first=arguments.first,
            datacenters=tuple(arguments.datacenters.split(",")),
            tls=TlsFiles(*arguments.tls) if arguments.tls else None,
        )
    )
    if arguments.reports:
        ended = asyncio.to_thread(sys.stdin.buffer.read)
        async with wait_first(nodes.start_in_turn(), ended, _report(nodes)) as (_, end, _):
            await end
        return
    await nodes.start()
    await nodes.connected()
    print(f"{len(nodes.nodes)} nodes are connected", flush=True)
    await asyncio.Event().wait()


async def _report(nodes: SimulatedNodes) -> None:
    while True:
        figures = SimulatedFigures(
            nodes=len(nodes.nodes),
            connected=sum(node.link.connected.is_set() for node in nodes.nodes),
            losses=sum(node.losses for node in nodes.nodes),
            running=nodes.running(),
            cpu_s=time.process_time(),
            rss_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        )
        print(msgspec.json.encode(figures).decode(), flush=True)
        await asyncio.sleep(_REPORT_S)


if __name__ == "__main__":
    logs.configure(logs.LogSettings("WARNING"))
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        asyncio.run(main(_arguments()))
