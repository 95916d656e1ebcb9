"""Whether another process of the node listens on a port that is to be mapped."""

from __future__ import annotations

import contextlib
import errno
import socket

from agent.networks.wanted import WantedNetwork
from orchgit.host_port import join_host_port


def ports_in_use(wanted: WantedNetwork) -> list[str]:
    """Returns `port LABEL (ADDRESS:NUMBER)` of those that are. Mapping such a port would take the
    connections away from that process without a word."""
    taken = []
    for port in wanted.ports:
        if port.protocol == "tcp" and _is_in_use(port.host_ip, port.host_port):
            label = wanted.labels.get(port.host_port, "")
            taken.append(f'port "{label}" ({join_host_port(port.host_ip or "*", port.host_port)})')
    return taken


def _is_in_use(address: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.closing(socket.socket(family, socket.SOCK_STREAM)) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((address, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
