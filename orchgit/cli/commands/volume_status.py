"""`orchgit volume status`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, quoted
from orchgit.cli.command import cli_command
from orchgit.cli.commands.alloc_status import show_table as show_allocations
from orchgit.cli.commands.volume_find import KINDS, matching_volumes
from orchgit.cli.completion import VOLUME, id_argument
from orchgit.cli.options import connected, formatted, option_field, options_of
from orchgit.cli.printing.output import amount, heading, pairs, plain, short, styled, table
from orchgit.cli.printing.output_format import OutputFormat


@dataclass(frozen=True, slots=True)
class VolumeStatusOptions:
    kind: str | None = option_field(
        "type", type=click.Choice(KINDS), help="Only host volumes, or only CSI volumes."
    )
    short: bool = option_field("short", is_flag=True, help="Without allocations.")
    node: str | None = option_field("node", help="Only host volumes on this node.")
    node_pool: str | None = option_field("node-pool", help="Only host volumes in this pool.")
    verbose: bool = option_field("verbose", is_flag=True, help="Show whole ids.")


@cli_command("status")
@id_argument("identifier", VOLUME, required=False)
@options_of(VolumeStatusOptions)
@formatted
@connected
def status(
    client: ApiClient, identifier: str | None, options: VolumeStatusOptions, output: OutputFormat
) -> None:
    """All volumes, or one with its allocations.

    IDENTIFIER is an id, the beginning of one, or a name; volumes of one name are listed.
    """
    if identifier:
        _show_one(client, identifier, options, output)
        return
    kinds = (options.kind,) if options.kind else KINDS
    node = client.find("node", "/v1/nodes", options.node)["ID"] if options.node else None
    params = {"node_id": node, "node_pool": options.node_pool}
    found = {
        kind: client.get("/v1/volumes", type=kind, **(params if kind == "host" else {})) or []
        for kind in kinds
    }
    if output.printed(found[kinds[0]] if options.kind else [*found["host"], *found["csi"]]):
        return
    _show_lists(found, options.verbose)


def _show_lists(found: dict[str, list[dict[str, Any]]], verbose: bool) -> None:
    """Prints the volumes of each kind."""
    if "host" in found:
        click.echo("Dynamic Host Volumes")
        _show_host_volumes(found["host"], verbose)
    if "csi" in found:
        click.echo(f"{chr(10) * (len(found) > 1)}Container Storage Interface")
        _show_csi_volumes(found["csi"], verbose)


def _show_host_volumes(found: list[dict[str, Any]], verbose: bool) -> None:
    if not found:
        click.echo("No dynamic host volumes", err=True)
    table(
        ("ID", "Name", "Namespace", "Plugin ID", "Node ID", "Node Pool", "State"),
        (
            (
                short(each["ID"], verbose),
                plain(each["Name"]),
                plain(each["Namespace"]),
                plain(each["PluginID"] or "<none>"),
                short(each["NodeID"], verbose),
                plain(each["NodePool"]),
                styled(each["State"]),
            )
            for each in found
        ),
    )


def _show_csi_volumes(found: list[dict[str, Any]], verbose: bool) -> None:
    if not found:
        click.echo("No CSI volumes", err=True)
    table(
        ("ID", "Name", "Namespace", "Plugin ID", "Schedulable", "Access Mode"),
        (
            (
                each["ID"] if verbose else short(each["ID"]),
                plain(each["Name"]),
                plain(each["Namespace"]),
                plain(each["PluginID"]),
                str(each["Schedulable"]).lower(),
                plain(each.get("AccessMode") or "<none>"),
            )
            for each in found
        ),
    )


def _show_one(
    client: ApiClient, identifier: str, options: VolumeStatusOptions, output: OutputFormat
) -> None:
    found = matching_volumes(client, identifier, (options.kind,) if options.kind else KINDS)
    if len(found) > 1:
        volumes = {kind: [each for its, each in found if its == kind] for kind in KINDS}
        if not output.printed([each for _, each in found]):
            _show_lists({kind: each for kind, each in volumes.items() if each}, options.verbose)
        return
    ((kind, volume),) = found
    path = f"/v1/volume/{kind}/{quoted(volume['ID'])}"
    data = client.get(path, namespace=volume["Namespace"])
    if not output.printed(data):
        _show(kind, data, options)


def _show(kind: str, data: dict[str, Any], options: VolumeStatusOptions) -> None:
    verbose = options.verbose
    if kind == "host":
        rows = (
            ("ID", short(data["ID"], verbose)),
            ("Name", plain(data["Name"])),
            ("Namespace", plain(data["Namespace"])),
            ("Plugin ID", plain(data["PluginID"] or "<none>")),
            ("Node ID", short(data["NodeID"], verbose)),
            ("Node Pool", plain(data["NodePool"])),
            ("Capacity", amount(data["CapacityBytes"])),
            ("State", styled(data["State"])),
            ("Host Path", plain(data["HostPath"])),
        )
    else:
        rows = (
            ("ID", plain(data["ID"])),
            ("Name", plain(data["Name"])),
            ("Namespace", plain(data["Namespace"])),
            ("External ID", plain(data.get("ExternalID") or "<none>")),
            ("Plugin ID", plain(data["PluginID"])),
            ("Provider", plain(data.get("Provider") or "<none>")),
            ("Schedulable", str(data["Schedulable"]).lower()),
            ("Controllers Healthy", str(data.get("ControllersHealthy", 0))),
            ("Nodes Healthy", str(data.get("NodesHealthy", 0))),
        )
    pairs(rows)
    capabilities = data.get("RequestedCapabilities") or []
    if capabilities:
        heading("Capabilities")
        table(
            ("Access Mode", "Attachment Mode"),
            ((each["AccessMode"], each["AttachmentMode"]) for each in capabilities),
        )
    if not options.short:
        heading("Allocations")
        show_allocations(data.get("Allocations") or [], verbose)
