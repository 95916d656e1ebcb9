"""Sets up and removes networks of allocations until it is killed. Arguments: the node's directory,
the name of the bridge, the plugins' directories."""

from __future__ import annotations

import asyncio
import sys
import uuid
from pathlib import Path

from agent.networks.alloc_networks import AllocNetworks
from agent.networks.config import GroupNetworkConfig
from agent.networks.wanted import PortMapping, WantedNetwork
from orchgit.clock import SystemClock


def wanted(port: int) -> WantedNetwork:
    mapping = PortMapping(host_port=port, container_port=80, protocol="tcp")
    return WantedNetwork(alloc_id=str(uuid.uuid4()), mode="bridge", ports=[mapping])


async def churn(networks: AllocNetworks, port: int) -> None:
    while True:
        each = wanted(port)
        await networks.set_up(each, "")
        await networks.remove(each.alloc_id)


async def main(directory: Path, bridge_name: str, cni_path: str) -> None:
    config = GroupNetworkConfig(
        cni_path=cni_path, bridge_name=bridge_name, bridge_subnet="10.88.0.0/24"
    )
    networks = AllocNetworks(config, directory / "records", directory / "run", {}, SystemClock())
    print("ready", flush=True)
    await asyncio.gather(*(churn(networks, 23100 + at) for at in range(3)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
