"""`orchgit operator raft`: the members of the log."""

from __future__ import annotations

import click

from orchgit.cli.client.http_client import ApiClient
from orchgit.cli.command import cli_group
from orchgit.cli.options import connected, formatted, option
from orchgit.cli.printing.output import plain, table
from orchgit.cli.printing.output_format import OutputFormat


@cli_group(
    "raft",
    lazy={
        "info": (
            "operator_raft_log",
            "info",
            "Show the length and range of a server's log on disk",
        ),
        "logs": ("operator_raft_log", "logs", "Print the entries of a server's log on disk"),
        "migrate-backend": ("operator_raft_log", "migrate_backend", "Change how a log is stored"),
        "state": ("operator_raft_log", "state", "Show the state that a server's log makes"),
    },
)
def raft() -> None:
    """The members of the log that all servers share."""


_peer_address = option("peer-address", default="", help="Its address, as list-peers shows it.")
_peer_id = option("peer-id", default="", help="Its id, as list-peers shows it.")


@raft.command("list-peers", ignores_extra=True)
@option("stale", is_flag=True, help="As this server knows them; for a cluster without a leader.")
@formatted
@connected
def list_peers(client: ApiClient, stale: bool, output: OutputFormat) -> None:
    """The members: who leads, who has a vote."""
    asked = {"stale": "true"} if stale else {}
    found = client.get("/v1/operator/raft/configuration", **asked)
    if output.printed(found):
        return
    table(
        ("Node", "ID", "Address", "State", "Voter", "RaftProtocol"),
        (
            (
                plain(each["Node"]),
                each["ID"],
                each["Address"],
                "leader" if each["Leader"] else "follower",
                str(each["Voter"]).lower(),
                each["RaftProtocol"],
            )
            for each in found["Servers"]
        ),
        empty="No members: this server belongs to no cluster yet",
    )


@raft.command("remove-peer")
@_peer_address
@_peer_id
@connected
def remove_peer(client: ApiClient, peer_address: str, peer_id: str) -> None:
    """Take a server out of the cluster. The others go on without it.

    For one that is dead for good, or before one is stopped for good.
    """
    client.delete("/v1/operator/raft/peer", **_named(peer_address, peer_id))
    click.echo(f"Removed peer {peer_address or peer_id}. If it still runs, stop it now.")


@raft.command("transfer-leadership")
@_peer_address
@_peer_id
@connected
def transfer_leadership(client: ApiClient, peer_address: str, peer_id: str) -> None:
    """Have another server lead, for example before this one is stopped."""
    named = _named(peer_address, peer_id)
    answer = client.put("/v1/operator/raft/transfer-leadership", None, **named)
    name = answer["To"]["Name"] or answer["To"]["Address"]
    click.echo(f"{name} leads already." if answer["Noop"] else f"{name} leads now.")


def _named(peer_address: str, peer_id: str) -> dict[str, str]:
    if bool(peer_address) == bool(peer_id):
        raise click.UsageError(
            "cannot tell which server is meant: give -peer-address or -peer-id "
            "(`orchgit operator raft list-peers` shows both)"
        )
    return {"address": peer_address, "id": peer_id}
