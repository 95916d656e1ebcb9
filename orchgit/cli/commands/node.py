"""`orchgit node`: what is done with nodes."""

from __future__ import annotations

from orchgit.cli.command import cli_group


@cli_group(
    "node",
    lazy={
        "config": ("node_agent", "config", "The servers that an agent talks to"),
        "drain": ("node_drain", "drain", "Move everything off a node"),
        "eligibility": ("node_drain", "eligibility", "Whether new work may be placed on a node"),
        "identity": ("node_agent", "identity", "How a node proves to servers who it is"),
        "intro": ("node_agent", "intro", "Tokens with which new nodes introduce themselves"),
        "meta": ("node_agent", "meta", "Read and change the meta of a node"),
        "pool": ("node_pool", "pool", "Sets of nodes that jobs choose from"),
        "purge": ("node_drain", "purge", "Forget a node"),
        "status": ("node_status", "status", "All nodes, or one with its allocations"),
    },
)
def node() -> None:
    """Look into nodes, drain them, make them eligible."""
