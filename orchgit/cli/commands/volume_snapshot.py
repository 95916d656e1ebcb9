"""`orchgit volume snapshot`: snapshots of CSI volumes."""

from __future__ import annotations

import json

import click

from orchgit.cli.client.csi_secrets import secrets_header
from orchgit.cli.client.http_client import ApiClient
from orchgit.cli.command import cli_group
from orchgit.cli.commands.volume_find import find_volume
from orchgit.cli.completion import VOLUME, id_argument
from orchgit.cli.options import connected, formatted, named_values, option, verbose_option
from orchgit.cli.printing.output import ago, amount, plain, short, table
from orchgit.cli.printing.output_format import OutputFormat

_secret_option = option("secret", multiple=True, help="For the plugin, KEY=VALUE; repeatable.")


@cli_group("snapshot")
def snapshot() -> None:
    """Snapshots of CSI volumes."""


@snapshot.command("create")
@id_argument("identifier", VOLUME)
@click.argument("name")
@option("parameter", multiple=True, help="For the plugin, KEY=VALUE; repeatable.")
@_secret_option
@verbose_option
@connected
def create(
    client: ApiClient,
    identifier: str,
    name: str,
    parameter: tuple[str, ...],
    secret: tuple[str, ...],
    verbose: bool,
) -> None:
    """Take a snapshot of a volume."""
    _, found = find_volume(client, identifier, ("csi",))
    wanted = {
        "SourceVolumeID": found["ID"],
        "PluginID": found["PluginID"],
        "Name": name,
        "Parameters": named_values("parameter", parameter),
        "Secrets": named_values("secret", secret),
    }
    answer = client.put(
        "/v1/volumes/snapshot", {"Snapshots": [wanted]}, namespace=found["Namespace"]
    )
    for each in answer["Snapshots"]:
        shown = each["ID"] if verbose else short(each["ID"])
        click.echo(f"Snapshot {shown} of volume {found['ID']!r} is taken.")


@snapshot.command("list")
@option("plugin", dest="plugin_id", default="", help="The plugin that has the snapshots.")
@option("per-page", type=int, help="At most so many.")
@option("page-token", help="Where the last page ended.")
@_secret_option
@verbose_option
@formatted
@connected
def list_(
    client: ApiClient,
    plugin_id: str,
    per_page: int | None,
    page_token: str | None,
    secret: tuple[str, ...],
    verbose: bool,
    output: OutputFormat,
) -> None:
    """List the snapshots that a plugin has."""
    plugins = client.get("/v1/plugins", type="csi")
    if not plugins:
        click.echo("No CSI plugins", err=True)
        raise SystemExit(1)
    if not plugin_id:
        if len(plugins) > 1:
            names = ", ".join(each["ID"] for each in plugins)
            raise click.UsageError(f"cannot tell which plugin: give -plugin, one of {names}")
        plugin_id = plugins[0]["ID"]
    text = client.raw(
        "GET",
        "/v1/volumes/snapshot",
        None,
        secrets_header(secret),
        plugin_id=plugin_id,
        per_page=per_page,
        next_token=page_token,
    )
    found = json.loads(text)
    if output.printed(found):
        return
    table(
        ("ID", "External ID", "Size", "Creation Time", "Ready?"),
        (
            (
                plain(each["ID"] if verbose else short(each["ID"])),
                plain(each.get("ExternalSourceVolumeID") or "-"),
                amount(each["SizeBytes"]),
                ago(int(each["CreateTime"]) * 1_000_000_000),
                str(each["IsReady"]).lower(),
            )
            for each in found["Snapshots"]
        ),
        empty="No snapshots",
    )


@snapshot.command("delete")
@click.argument("plugin_id")
@click.argument("snapshot_id")
@_secret_option
@connected
def delete(client: ApiClient, plugin_id: str, snapshot_id: str, secret: tuple[str, ...]) -> None:
    """Delete a snapshot."""
    client.raw(
        "DELETE",
        "/v1/volumes/snapshot",
        None,
        secrets_header(secret),
        plugin_id=plugin_id,
        snapshot_id=snapshot_id,
    )
    click.echo(f"Snapshot {snapshot_id} is deleted.")
