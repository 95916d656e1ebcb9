"""`orchgit node config`, `meta`, `identity` and `intro`: settings of agents while they run."""

from __future__ import annotations

from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient
from orchgit.cli.command import cli_command, cli_group
from orchgit.cli.commands.node_find import find_node
from orchgit.cli.completion import NODE, id_argument
from orchgit.cli.options import connected, formatted, length, option
from orchgit.cli.printing.output import heading, pairs, plain
from orchgit.cli.printing.output_format import OutputFormat


@cli_command("config")
@click.argument("addresses", nargs=-1)
@option("servers", is_flag=True, help="Show the servers that the agent knows.")
@option("update-servers", is_flag=True, help="Let it talk to the servers at ADDRESSES.")
@connected
def config(
    client: ApiClient, addresses: tuple[str, ...], servers: bool, update_servers: bool
) -> None:
    """The servers that the agent at the address talks to."""
    if servers == update_servers:
        raise click.UsageError("cannot tell what to do: give -servers, or -update-servers")
    if update_servers:
        if not addresses:
            raise click.UsageError("cannot update the servers: name at least one host:port")
        client.put("/v1/agent/servers", None, address=list(addresses))
        click.echo("The list of servers is updated.")
        return
    for address in client.get("/v1/agent/servers"):
        click.echo(address)


@cli_group("meta")
def meta() -> None:
    """Read and change the meta of a node."""


@meta.command("read", ignores_extra=True)
@option("node-id", help="The node; that of the agent that answers if not given.")
@formatted
@connected
def read(client: ApiClient, node_id: str | None, output: OutputFormat) -> None:
    """The meta of a node: what its configuration says, and what was set later."""
    found = client.get("/v1/client/metadata", node_id=_whole_id(client, node_id))
    if output.printed(found):
        return
    for title, name in (
        ("All Meta", "Meta"),
        ("Dynamic Meta", "Dynamic"),
        ("Static Meta", "Static"),
    ):
        heading(title)
        values = found.get(name) or {}
        pairs(
            (plain(key), "<unset>" if value is None else plain(value))
            for key, value in sorted(values.items())
        )


@meta.command("apply")
@click.argument("changes", metavar="[KEY=VALUE]...", nargs=-1)
@option("node-id", help="The node; that of the agent that answers if not given.")
@option("unset", help="Keys to take away, separated by commas.")
@connected
def apply(
    client: ApiClient, changes: tuple[str, ...], node_id: str | None, unset: str | None
) -> None:
    """Set keys of a node's meta while it runs; jobs may use them in constraints."""
    if not (changes or unset):
        raise click.UsageError("cannot apply nothing: give KEY=VALUE, or -unset KEY")
    wanted: dict[str, str | None] = dict.fromkeys((unset or "").split(",") if unset else ())
    for change in changes:
        key, equals, value = change.partition("=")
        wanted[key] = value if equals else ""
    body = {"Meta": wanted}
    client.post("/v1/client/metadata", body, node_id=_whole_id(client, node_id))
    click.echo("The meta of the node is applied.")


@cli_group("identity")
def identity() -> None:
    """How a node proves to servers who it is."""


@identity.command("get")
@id_argument("identifier", NODE)
@formatted
@connected
def get(client: ApiClient, identifier: str, output: OutputFormat) -> None:
    """What is in a node's identity."""
    found = client.get("/v1/client/identity", node_id=find_node(client, identifier)["ID"])
    if not output.printed(found):
        claims: dict[str, Any] = found["Claims"]
        pairs((f"Claim {name}", plain(value)) for name, value in sorted(claims.items()))


@identity.command("renew")
@id_argument("identifier", NODE)
@connected
def renew(client: ApiClient, identifier: str) -> None:
    """Have a node ask for a new identity with its next heartbeat."""
    found = find_node(client, identifier)
    client.post("/v1/client/identity/renew", {"NodeID": found["ID"]}, node_id=found["ID"])
    click.echo(f"Node {found['ID']} renews its identity with its next heartbeat.")


@cli_group("intro")
def intro() -> None:
    """Tokens with which new nodes introduce themselves."""


@intro.command("create")
@option("node-name", default="", help="Only for a node of this name.")
@option("node-pool", default="", help="Only for a node of this pool.")
@option("ttl", type=length, help="How long the token is good, such as 30m.")
@formatted
@connected
def create(
    client: ApiClient, node_name: str, node_pool: str, ttl: str | None, output: OutputFormat
) -> None:
    """Make a token for `orchgit agent -client-intro-token`."""
    body: dict[str, Any] = {"NodeName": node_name, "NodePool": node_pool}
    if ttl:
        body["TTL"] = ttl
    found = client.post("/v1/acl/identity/client-introduction-token", body)
    if not output.printed(found):
        click.echo(found["JWT"])


def _whole_id(client: ApiClient, node_id: str | None) -> str | None:
    return find_node(client, node_id)["ID"] if node_id else None
