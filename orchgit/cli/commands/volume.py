"""`orchgit volume`: what is done with volumes."""

from __future__ import annotations

from orchgit.cli.command import cli_group


@cli_group(
    "volume",
    lazy={
        "claim": ("volume_claim", "claim", "Manage the claims of task groups on sticky volumes"),
        "claims": ("volume_claim", "claims", "The same as `claim list`"),
        "create": ("volume_change", "create", "Create a volume"),
        "delete": ("volume_change", "delete", "Delete a volume and its data"),
        "deregister": ("volume_change", "deregister", "Deregister a CSI volume; its data stays"),
        "detach": ("volume_change", "detach", "Detach a CSI volume from a node"),
        "init": ("volume_init", "init", "Write an example of a volume"),
        "register": ("volume_change", "register", "Register a volume that exists already"),
        "snapshot": ("volume_snapshot", "snapshot", "Manage snapshots of CSI volumes"),
        "status": ("volume_status", "status", "List volumes, or show one with its allocations"),
        "unclaim": ("volume_claim", "unclaim", "The same as `claim delete`"),
    },
)
def volume() -> None:
    """Volumes and the claims on them."""
