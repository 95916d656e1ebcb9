"""`orchgit server members`: the servers of this cluster."""

from __future__ import annotations

import click

from orchgit.cli.http_client import ApiClient
from orchgit.cli.options import connected, formatted
from orchgit.cli.output import formatted as print_formatted
from orchgit.cli.output import plain, styled, table


@click.group("server")
def server() -> None:
    """The servers of this cluster."""


@server.command("members")
@formatted
@connected
def members(client: ApiClient, as_json: bool, template: str | None) -> None:
    """Each server, its address and whether it leads."""
    found = client.get("/v1/agent/members")["Members"]
    if print_formatted(found, as_json, template):
        return
    leader = client.get("/v1/status/leader")
    table(
        ("Name", "Address", "Port", "Status", "Leader", "Region"),
        (
            (
                plain(each["Name"]),
                each["Addr"],
                each["Port"],
                styled(each["Status"]),
                str(leader == f"{each['Addr']}:{each['Tags'].get('port', each['Port'])}").lower(),
                plain(each["Tags"].get("region", "")),
            )
            for each in found
        ),
    )
