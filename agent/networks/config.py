"""What the agent's configuration says about the networks of groups."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path

DEFAULT_CNI_PATH = "/opt/cni/bin:/usr/libexec/cni:/usr/lib/cni"
DEFAULT_CNI_CONFIG_DIR = "/opt/cni/config"
DEFAULT_BRIDGE_NAME = "nomad"
DEFAULT_BRIDGE_SUBNET = "172.26.64.0/20"

_INTERFACE_NAME = re.compile(r"[A-Za-z0-9._-]{1,15}")  # the kernel's longest name has 15 bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNetworkConfig:
    """`bridge` and `cni/*` networks of this node."""

    cni_path: str = DEFAULT_CNI_PATH
    """Directories with CNI plugins, joined by colons; the first that has a plugin is taken."""
    cni_config_dir: Path = Path(DEFAULT_CNI_CONFIG_DIR)
    bridge_name: str = DEFAULT_BRIDGE_NAME
    bridge_subnet: str = DEFAULT_BRIDGE_SUBNET
    bridge_subnet_ipv6: str = ""
    """"": allocations have no IPv6 address."""
    hairpin_mode: bool = False
    bind_wildcard: bool = True
    """Whether mapped ports accept connections on every address of a node without host networks."""

    def problems(self) -> list[str]:
        """Returns what is wrong with it, one sentence for each key."""
        found = []
        if not is_interface_name(self.bridge_name):
            found.append(
                f'bridge_network_name: "{self.bridge_name}" is no name of an interface: it needs '
                "1 to 15 letters, digits, dots, dashes or underscores"
            )
        for key, text, version in (
            ("bridge_network_subnet", self.bridge_subnet, 4),
            ("bridge_network_subnet_ipv6", self.bridge_subnet_ipv6, 6),
        ):
            if text and not is_subnet(text, version):
                found.append(
                    f'{key}: "{text}" is no CIDR block of IPv{version} with free addresses'
                )
        return found


def is_subnet(text: str, version: int) -> bool:
    """Returns whether the text is a CIDR block of this version of IP with free addresses."""
    try:
        block = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return block.version == version and block.num_addresses >= 4


def is_interface_name(text: str) -> bool:
    return _INTERFACE_NAME.fullmatch(text) is not None
