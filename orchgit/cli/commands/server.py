"""`orchgit server`: the servers of this cluster, how they do, joining and leaving."""

from __future__ import annotations

from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_group
from orchgit.cli.options import connected, formatted, no_effect_option, option, ui_option
from orchgit.cli.printing.output import plain, styled, table
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.host_port import join_host_port


@cli_group("server")
def server() -> None:
    """The servers of this cluster."""


@server.command("members")
@option("verbose", is_flag=True, help="More columns: ids, votes, health, tags.")
@option("detailed", is_flag=True, help="The same as -verbose.")
@ui_option
@formatted
@connected
def members(client: ApiClient, verbose: bool, detailed: bool, output: OutputFormat) -> None:
    """Each server, its address, how it does, and whether it leads."""
    found = client.get("/v1/agent/members")["Members"]
    if output.printed(found):
        return
    leader = client.get("/v1/status/leader")
    is_long = verbose or detailed
    protocol = ["Protocol"] if is_long else []
    columns = ["Name", "Address", "Port", "Status", "Leader", *protocol, "Raft Version", "Build"]
    columns += ["Datacenter", "Region"]
    rows = [_row(each, leader, is_long) for each in found]
    if is_long:
        columns += ["Tags", "Voter", "Healthy", "Log Version", "ID"]
        told = _told_by_leader(client)
        for each, row in zip(found, rows, strict=True):
            tags = each["Tags"]
            seen = told.get(tags.get("id", ""), {})
            row.append(plain(",".join(f"{name}={value}" for name, value in sorted(tags.items()))))
            for name in ("Voter", "Healthy"):
                row.append(str(seen[name]).lower() if name in seen else "-")
            row += [tags.get("command_version", "-"), tags.get("id", "-")]
    table(columns, rows)
    if not leader:
        click.echo("\nNo leader: the cluster cannot write. It needs a majority of its servers.")


def _row(each: dict[str, Any], leader: str, is_long: bool) -> list[object]:
    tags = each["Tags"]
    host, port = tags.get("rpc_addr", each["Addr"]), tags.get("port", each["Port"])
    leads = leader == join_host_port(host, int(port))
    return [
        plain(each["Name"]),
        each["Addr"],
        each["Port"],
        styled(each["Status"]),
        str(leads).lower(),
        *([each.get("ProtocolCur", "-")] * is_long),
        tags.get("raft_vsn", "3"),
        tags.get("build", ""),
        plain(tags.get("dc", "")),
        plain(tags.get("region", "")),
    ]


def _told_by_leader(client: ApiClient) -> dict[str, dict[str, Any]]:
    """Returns the servers' health by id; empty without a leader, or where none is healthy."""
    try:
        servers = client.get("/v1/operator/raft/configuration", stale="true")["Servers"]
        told = {each["ID"]: {"Voter": each["Voter"]} for each in servers}
        for each in client.autopilot_health()["Servers"]:
            told.setdefault(each["ID"], {}).update(each)
    except ApiError:
        return {}
    return told


@server.command("join")
@click.argument("addresses", nargs=-1, required=True)
@connected
def join(client: ApiClient, addresses: tuple[str, ...]) -> None:
    """Tell the server at -address of others; one that belongs to no cluster joins theirs.

    ADDRESSES are hosts, or host:port of their RPC. In a configuration file, server_join does the
    same at every start.
    """
    answer = client.put("/v1/agent/join", None, address=list(addresses))
    if not answer["num_joined"]:
        raise ApiError(f"cannot join: {answer['error'] or 'nobody answered'}")
    click.echo(f"{answer['num_joined']} of {len(addresses)} servers answered.")
    if answer["error"]:
        click.echo(f"Warning: {answer['error']}", err=True)
    click.echo("Next: orchgit server members")


@server.command("force-leave")
@no_effect_option("prune", "a server that leaves is forgotten at once", is_flag=True)
@click.argument("name")
@connected
def force_leave(client: ApiClient, name: str) -> None:
    """Take the server NAME (of `server members`) out of the cluster.

    For one that is dead for good. The others go on without it. One that is alive is refused: stop
    it first, or use `operator raft remove-peer`.
    """
    known = client.get("/v1/agent/members")["Members"]
    if not any(name in (each["Name"], each["Name"].rpartition(".")[0]) for each in known):
        # Scripts end with it; a server that is not there has left.
        click.echo(
            f"Warning: no server is named {name!r}; `orchgit server members` shows them", err=True
        )
        return
    client.put("/v1/agent/force-leave", None, node=name)
    click.echo(f"Server {name} was removed from the cluster.")
