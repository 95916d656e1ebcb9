"""Nodes and asks for tests of the scheduler."""

from __future__ import annotations

from orchgit.model.node import Node, NodeNetwork, NodeNetworkAddress
from orchgit.model.resources import NetworkResource
from tests.support.factories import make_node


def make_network_node(number: int, **fields: object) -> Node:
    """A ready node with one host network, its id and address told by `number`."""
    node = make_node(**fields)
    address = f"10.0.0.{number + 1}"
    node.id = f"node-{number:03d}"
    node.name = node.id
    node.node_resources.networks = [NetworkResource(mode="host", device="eth0", ip=address)]
    node.node_resources.node_networks = [
        NodeNetwork(
            mode="host",
            device="eth0",
            addresses=[NodeNetworkAddress(family="ipv4", alias="default", address=address)],
        )
    ]
    return node
