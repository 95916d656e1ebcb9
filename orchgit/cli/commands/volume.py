"""`orchgit volume`: status, create, delete, claims, unclaim."""

from __future__ import annotations

import click

from orchgit.cli.client.http_client import ApiClient
from orchgit.cli.command import cli_group
from orchgit.cli.options import connected, formatted, option, verbose_option, yes_option
from orchgit.cli.printing.commit_text import commit_line
from orchgit.cli.printing.output import plain, short, styled, table
from orchgit.cli.printing.output_format import OutputFormat


@cli_group("volume")
def volume() -> None:
    """Host volumes and the claims on them."""


@volume.command("status")
@verbose_option
@formatted
@connected
def status(client: ApiClient, verbose: bool, output: OutputFormat) -> None:
    """All host volumes."""
    found = client.get("/v1/volumes", type="host")
    if output.printed(found):
        return
    table(
        ("ID", "Name", "Namespace", "Plugin", "Node ID", "Node Pool", "State"),
        (
            (
                short(each["ID"], verbose),
                plain(each["Name"]),
                plain(each["Namespace"]),
                plain(each["PluginID"]),
                short(each["NodeID"], verbose),
                plain(each["NodePool"]),
                styled(each["State"]),
            )
            for each in found
        ),
        empty="No volumes",
    )


@volume.command("create")
@click.argument("name")
@option("node", help="Where to make it; any node that fits if not given.")
@option("node-pool", default="", help="A node of this pool.")
@connected
def create(client: ApiClient, name: str, node: str | None, node_pool: str) -> None:
    """Make a directory on a node that jobs may claim as the host volume NAME."""
    node_id = client.find("node", "/v1/nodes", node)["ID"] if node else ""
    body = {
        "Volume": {
            "Name": name,
            "NodeID": node_id,
            "NodePool": node_pool,
            "PluginID": "mkdir",
            "RequestedCapabilities": [
                {"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}
            ],
        }
    }
    made = client.put("/v1/volume/host/create", body)["Volume"]
    click.echo(f"Volume {name!r} ({short(made['ID'])}) is on node {short(made['NodeID'])}.")


@volume.command("delete")
@click.argument("identifier")
@yes_option
@connected
def delete(client: ApiClient, identifier: str, yes: bool) -> None:
    """Delete a host volume and its data."""
    found = client.find("volume", "/v1/volumes", identifier, type="host")
    if yes or click.confirm(f"Delete volume {found['Name']!r} and its data?"):
        client.delete(f"/v1/volume/host/{found['ID']}/delete")
        click.echo(f"Volume {short(found['ID'])} is deleted.")


@volume.command("claims")
@verbose_option
@formatted
@connected
def claims(client: ApiClient, verbose: bool, output: OutputFormat) -> None:
    """Which group owns which sticky volume, and since which commit."""
    found = client.get("/v1/volumes/claims")
    if output.printed(found):
        return
    table(
        ("ID", "Job", "Group", "Volume", "Volume ID", "Allocation", "Commit"),
        (
            (
                short(each["ID"], verbose),
                plain(each["JobID"]),
                plain(each["TaskGroupName"]),
                plain(each["VolumeName"]),
                short(each["VolumeID"], verbose),
                short(each["AllocID"], verbose),
                commit_line(client, each, verbose) or "-",
            )
            for each in found
        ),
        empty="No claims",
    )


@volume.command("unclaim")
@click.argument("identifier")
@yes_option
@connected
def unclaim(client: ApiClient, identifier: str, yes: bool) -> None:
    """Free a group from its volume; what runs goes on running."""
    found = client.find("claim", "/v1/volumes/claims", identifier)
    question = f"Free group {found['TaskGroupName']!r} of job {found['JobID']!r} from its volume?"
    if yes or click.confirm(question):
        client.delete(f"/v1/volumes/claim/{found['ID']}")
        click.echo(f"Claim {short(found['ID'])} is deleted.")
