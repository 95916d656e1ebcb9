"""Computes a node's class: nodes that no constraint on shared attributes can tell apart.

Attributes and meta whose name begins with `unique.` are left out, so that feasibility can be
decided once per class and blocked evaluations are woken only by classes that may fit.
"""

from __future__ import annotations

import hashlib

import msgspec

from orchgit.model.node import Node


def computed_class(node: Node) -> str:
    devices = [
        (device.vendor, device.type, device.name, device.attributes)
        for device in node.node_resources.devices or ()
    ]
    content = (
        node.datacenter,
        node.node_pool,
        node.node_class,
        _shared(node.attributes),
        _shared(node.meta),
        sorted(name for name, driver in node.drivers.items() if driver.healthy),
        devices,
    )
    digest = hashlib.blake2b(msgspec.json.encode(content, order="sorted"), digest_size=8)
    return f"v1:{digest.hexdigest()}"


def _shared(values: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if not key.startswith("unique.")}
