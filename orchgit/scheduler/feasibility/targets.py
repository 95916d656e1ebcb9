"""Resolves targets such as `${attr.kernel.name}` on a node."""

from __future__ import annotations

from orchgit.model.node import Node

_UNIQUE_PREFIXES = (
    "${unique.",
    "${node.unique.",
    "${attr.unique.",
    "${meta.unique.",
)


def resolve(target: str, node: Node) -> str | None:
    """Returns the value of one side of a constraint on the node; None if the node has none."""
    if not target.startswith("${"):
        return target
    inner = target[2:].removesuffix("}")
    head, _, key = inner.partition(".")
    if head == "attr":
        return node.attributes.get(key)
    if head == "meta":
        return node.meta.get(key)
    return _node_value(key, node) if head == "node" else None


def _node_value(key: str, node: Node) -> str | None:
    match key:
        case "unique.id":
            return node.id
        case "unique.name":
            return node.name
        case "datacenter":
            return node.datacenter
        case "class":
            return node.node_class
        case "pool":
            return node.node_pool
    return None


def escapes_class(target: str) -> bool:
    """Returns whether nodes of one computed class may differ in this target."""
    return target.startswith(_UNIQUE_PREFIXES)
