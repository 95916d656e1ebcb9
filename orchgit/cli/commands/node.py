"""`orchgit node`: what is done with nodes."""

from __future__ import annotations

from orchgit.cli.command import cli_group


@cli_group(
    "node",
    lazy={
        "config": ("node_agent", "config", "Show or change the servers that an agent talks to"),
        "drain": ("node_drain", "drain", "Move all allocations off a node"),
        "eligibility": ("node_drain", "eligibility", "Allow or forbid new allocations on a node"),
        "identity": ("node_agent", "identity", "Show or renew the identity of a node"),
        "intro": ("node_agent", "intro", "Create introduction tokens for new nodes"),
        "meta": ("node_agent", "meta", "Read and change the metadata of a node"),
        "pool": ("node_pool", "pool", "Manage node pools"),
        "purge": ("node_drain", "purge", "Remove a node from the cluster's state"),
        "status": ("node_status", "status", "List nodes, or show one with its allocations"),
    },
)
def node() -> None:
    """Look into nodes, drain them, make them eligible."""
