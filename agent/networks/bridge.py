"""The network of `mode = "bridge"`: a bridge of the node, behind which allocations are masqueraded.

The firewall plugin lets an allocation open connections. Connections to its mapped ports are let
through by a rule of our own in the administrator's chain, which the plugin asks first.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import shlex
from pathlib import Path
from typing import Any

from agent.networks.cni.configuration import NetworkList
from agent.networks.config import GroupNetworkConfig
from orchgit.child import DEVNULL, PIPE, start_child
from orchgit.errors import DriverError

ADMIN_CHAIN = "NOMAD-ADMIN"
ADDRESSES_DIR = "/run/orchgit/cni"
"""Where the plugin keeps the addresses that are given out: for as long as the machine runs, since
namespaces do not outlive it either."""
_VERSION = "0.4.0"  # the newest that plugins of 2019 and of today both know
_IPTABLES_TIMEOUT_S = 30
_LOCK_WAIT_S = "10"


def network_list(config: GroupNetworkConfig) -> NetworkList:
    """The plugins that connect an allocation to the bridge."""
    subnets = [text for text in (config.bridge_subnet, config.bridge_subnet_ipv6) if text]
    routes = ["::/0" if ":" in subnet else "0.0.0.0/0" for subnet in subnets]
    bridge: dict[str, Any] = {
        "type": "bridge",
        "bridge": config.bridge_name,
        "ipMasq": True,
        "isGateway": True,
        "forceAddress": True,
        "hairpinMode": config.hairpin_mode,
        "ipam": {
            "type": "host-local",
            "dataDir": ADDRESSES_DIR,
            "ranges": [[{"subnet": subnet}] for subnet in subnets],
            "routes": [{"dst": route} for route in routes],
        },
    }
    firewall = {
        "type": "firewall",
        "backend": "iptables",
        "iptablesAdminChainName": ADMIN_CHAIN,
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True}
    return NetworkList(
        name=config.bridge_name,
        cni_version=_VERSION,
        plugins=[{"type": "loopback"}, bridge, firewall, portmap],
    )


def known_result(config: GroupNetworkConfig, container_id: str) -> dict[str, Any] | None:
    """What the plugins answered for a container, as far as the addresses show that are given out;
    None where it has none."""
    addresses = []
    for path in Path(ADDRESSES_DIR, config.bridge_name).glob("*[.:]*"):
        with contextlib.suppress(OSError):
            if path.read_text().split()[:1] == [container_id]:
                addresses.append(path.name)
    ips = [
        {"version": "6", "address": f"{address}/128", "interface": 0}
        if ":" in address
        else {"version": "4", "address": f"{address}/32", "interface": 0}
        for address in addresses
    ]
    if not ips:
        return None
    interface = {"name": "eth0", "sandbox": container_id}
    return {"cniVersion": _VERSION, "interfaces": [interface], "ips": ips}


async def accept_mapped_ports(config: GroupNetworkConfig) -> None:
    """Let packets through to the addresses of the bridge; a rule that is there is kept.

    DriverError when iptables fails.
    """
    for program, subnet in _families(config):
        block = str(ipaddress.ip_network(subnet, strict=False))
        rule = ["-o", config.bridge_name, "-d", block, "-j", "ACCEPT"]
        try:
            await _iptables(program, "-C", ADMIN_CHAIN, *rule)
        except _RefusedError:
            with contextlib.suppress(_RefusedError):  # the chain exists
                await _iptables(program, "-N", ADMIN_CHAIN)
            await _iptables(program, "-A", ADMIN_CHAIN, *rule)


async def remove_masquerading(config: GroupNetworkConfig, container_id: str) -> None:
    """Remove the rules that the bridge plugin leaves when the namespace or its interface is gone
    before its DEL: it then does not know the addresses. DriverError when iptables fails."""
    mark = f'id: \\"{container_id}\\"'
    for program, _ in _families(config):
        listed = await _iptables(program, "-t", "nat", "-S", "POSTROUTING")
        chains = set()
        for line in listed.splitlines():
            if mark not in line:
                continue
            rule = shlex.split(line)
            chains.add(rule[rule.index("-j") + 1])
            await _iptables(program, "-t", "nat", "-D", *rule[1:])
        for chain in chains:
            await _iptables(program, "-t", "nat", "-F", chain)
            await _iptables(program, "-t", "nat", "-X", chain)


def _families(config: GroupNetworkConfig) -> list[tuple[str, str]]:
    subnets = (("iptables", config.bridge_subnet), ("ip6tables", config.bridge_subnet_ipv6))
    return [(program, subnet) for program, subnet in subnets if subnet]


class _RefusedError(DriverError):
    """iptables could not do what it was asked."""


async def _iptables(program: str, *arguments: str) -> str:
    """Returns what iptables prints. Raises DriverError, _RefusedError when iptables says no."""
    try:
        process = await start_child(
            *(program, "-w", _LOCK_WAIT_S, *arguments), stdin=DEVNULL, stdout=PIPE, stderr=PIPE
        )
    except OSError as error:
        raise DriverError(
            f"cannot run {program}: {error.strerror}; install the package iptables"
        ) from None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(_IPTABLES_TIMEOUT_S):
            output, complaint = await asyncio.gather(process.stdout.read(), process.stderr.read())
            code = await process.wait()
    except TimeoutError:
        raise DriverError(
            f"cannot change the firewall: {program} did not answer within {_IPTABLES_TIMEOUT_S} s",
            recoverable=True,
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
        process.close()
    if code != 0:
        reason = complaint.decode("utf-8", "replace").strip() or f"its exit code is {code}"
        raise _RefusedError(f"cannot change the firewall: {program}: {reason}", recoverable=True)
    return output.decode("utf-8", "replace")
