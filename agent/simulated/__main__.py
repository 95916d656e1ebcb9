"""The command line of simulated nodes.

`python -m agent.simulated --servers 127.0.0.1:4647 --nodes 1000`
"""

from __future__ import annotations

import argparse
import asyncio

from agent.simulated.nodes import SimulatedConfig, SimulatedNodes
from orchgit import logs


def _parse_arguments() -> SimulatedConfig:
    parser = argparse.ArgumentParser(description="Run simulated nodes against real servers.")
    parser.add_argument("--servers", required=True, help="host:port of the RPC, comma-separated")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--datacenters", default="dc1", help="comma-separated")
    arguments = parser.parse_args()
    return SimulatedConfig(
        servers=tuple(arguments.servers.split(",")),
        nodes=arguments.nodes,
        datacenters=tuple(arguments.datacenters.split(",")),
    )


async def main() -> None:
    nodes = SimulatedNodes(_parse_arguments())
    await nodes.start()
    await nodes.connected()
    print(f"{len(nodes.nodes)} nodes are connected", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    logs.configure(logs.LogSettings("WARNING"))
    asyncio.run(main())
