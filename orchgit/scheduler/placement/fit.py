"""Small facts about nodes and volumes that the scheduler and the plan applier share.

No numpy here: the applier's process does not load it.
"""

from __future__ import annotations

from orchgit.model.node import Node
from orchgit.model.volume import VolumeRequest

SINGLE_WRITER = "single-node-single-writer"


def capacity_of(node: Node) -> tuple[int, int, int]:
    """(cpu MHz, memory MB, disk MB) that jobs may use on the node."""
    resources, reserved = node.node_resources, node.reserved_resources
    return (
        resources.cpu.cpu_shares - reserved.cpu.cpu_shares,
        resources.memory.memory_mb - reserved.memory.memory_mb,
        resources.disk.disk_mb - reserved.disk.disk_mb,
    )


def volume_source(request: VolumeRequest, alloc_name: str) -> str:
    """The volume's name; `per_alloc` volumes have the allocation's `[index]` at the end."""
    return request.source + (alloc_name[alloc_name.rindex("[") :] if request.per_alloc else "")
