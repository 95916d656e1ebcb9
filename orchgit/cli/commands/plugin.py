"""`orchgit plugin`: storage plugins."""

from __future__ import annotations

import click

from orchgit.cli.client.http_client import ApiClient, quoted
from orchgit.cli.command import cli_group
from orchgit.cli.completion import CSI_PLUGIN, id_argument
from orchgit.cli.options import connected, formatted, option, verbose_option
from orchgit.cli.printing.output import pairs, plain, table
from orchgit.cli.printing.output_format import OutputFormat


@cli_group("plugin")
def plugin() -> None:
    """Storage plugins (CSI)."""


@plugin.command("status")
@id_argument("identifier", CSI_PLUGIN, required=False)
@option("type", dest="kind", type=click.Choice(("csi",)), default="csi", help="Kind of plugin.")
@option("short", is_flag=True, help="Only the plugin itself.")
@verbose_option
@formatted
@connected
def status(
    client: ApiClient,
    identifier: str | None,
    kind: str,
    short: bool,
    verbose: bool,
    output: OutputFormat,
) -> None:
    """All storage plugins, or one of them."""
    if not identifier:
        found = client.get("/v1/plugins", type=kind)
        if output.printed(found):
            return
        click.echo("Container Storage Interface")
        if not found:
            click.echo("No CSI plugins", err=True)
            return
        columns = ("ID", "Provider", "Controllers Healthy/Expected", "Nodes Healthy/Expected")
        table(
            columns,
            (
                (
                    plain(each["ID"]),
                    plain(each["Provider"]),
                    f"{each['ControllersHealthy']}/{each['ControllersExpected']}",
                    f"{each['NodesHealthy']}/{each['NodesExpected']}",
                )
                for each in found
            ),
        )
        return
    found = client.find("plugin", "/v1/plugins", identifier, type=kind)
    data = client.get(f"/v1/plugin/csi/{quoted(found['ID'])}")
    if output.printed(data):
        return
    pairs(
        (
            ("ID", plain(data["ID"])),
            ("Provider", plain(data["Provider"])),
            ("Version", plain(data["Version"])),
            ("Controllers Healthy", str(data["ControllersHealthy"])),
            ("Controllers Expected", str(data["ControllersExpected"])),
            ("Nodes Healthy", str(data["NodesHealthy"])),
            ("Nodes Expected", str(data["NodesExpected"])),
        )
    )
    if not short:
        from orchgit.cli.commands.alloc_status import show_table

        click.echo("\nAllocations")
        show_table(data.get("Allocations") or [], verbose)
