"""`orchgit volume create`, `register`, `delete`, `deregister` and `detach`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import click

from orchgit.cli.client.csi_secrets import secrets_header
from orchgit.cli.client.http_client import ApiClient, ApiError, quoted
from orchgit.cli.client.patient_reads import PatientReads
from orchgit.cli.command import cli_command
from orchgit.cli.commands.volume_find import KINDS, find_volume
from orchgit.cli.completion import VOLUME, id_argument
from orchgit.cli.job_files.specs import SpecEntry, plain_value, read_spec, size_bytes, text_map
from orchgit.cli.options import (
    connected,
    detach_option,
    enterprise_option,
    option,
    option_field,
    options_of,
    yes_option,
)
from orchgit.cli.printing.output import short

_CAPABILITY = {
    "access_mode": SpecEntry("AccessMode", plain_value),
    "attachment_mode": SpecEntry("AttachmentMode", plain_value),
}
_CONSTRAINT = {
    "attribute": SpecEntry("LTarget", plain_value),
    "operator": SpecEntry("Operand", plain_value),
    "value": SpecEntry("RTarget", plain_value),
}
_MOUNT = {
    "fs_type": SpecEntry("FSType", plain_value),
    "mount_flags": SpecEntry("MountFlags", plain_value),
}
_TOPOLOGY = {"segments": SpecEntry("Segments", text_map)}
_ENTRIES = {
    "id": SpecEntry("ID", plain_value),
    "name": SpecEntry("Name", plain_value),
    "namespace": SpecEntry("Namespace", plain_value),
    "type": SpecEntry("Type", plain_value),
    "plugin_id": SpecEntry("PluginID", plain_value),
    "node_id": SpecEntry("NodeID", plain_value),
    "node_pool": SpecEntry("NodePool", plain_value),
    "host_path": SpecEntry("HostPath", plain_value),
    "external_id": SpecEntry("ExternalID", plain_value),
    "snapshot_id": SpecEntry("SnapshotID", plain_value),
    "clone_id": SpecEntry("CloneID", plain_value),
    "capacity": SpecEntry("CapacityBytes", size_bytes),
    "capacity_min": SpecEntry("RequestedCapacityMinBytes", size_bytes),
    "capacity_max": SpecEntry("RequestedCapacityMaxBytes", size_bytes),
    "capability": SpecEntry("RequestedCapabilities", _CAPABILITY, many=True),
    "constraint": SpecEntry("Constraints", _CONSTRAINT, many=True),
    "mount_options": SpecEntry("MountOptions", _MOUNT),
    "parameters": SpecEntry("Parameters", text_map),
    "secrets": SpecEntry("Secrets", text_map),
    "context": SpecEntry("Context", text_map),
    "topology_request": SpecEntry(
        "RequestedTopologies",
        {
            "required": SpecEntry(
                "Required", {"topology": SpecEntry("Topologies", _TOPOLOGY, many=True)}
            ),
            "preferred": SpecEntry(
                "Preferred", {"topology": SpecEntry("Topologies", _TOPOLOGY, many=True)}
            ),
        },
    ),
}


_CSI_NAMES = {
    "CapacityBytes": "Capacity",
    "RequestedCapacityMinBytes": "RequestedCapacityMin",
    "RequestedCapacityMaxBytes": "RequestedCapacityMax",
}


@dataclass(frozen=True, slots=True)
class CreateOptions:
    id: str | None = option_field("id", help="Change the volume with this id.")
    name: str | None = option_field(
        "name", help="Without a file: make a directory that jobs claim as the host volume NAME."
    )
    node: str | None = option_field("node", help="With -name: on this node.")
    node_pool: str = option_field("node-pool", default="", help="With -name: in this pool.")
    verbose: bool = option_field("verbose", is_flag=True, help="Show whole ids.")


@cli_command("create")
@click.argument("path", required=False)
@options_of(CreateOptions)
@detach_option
@enterprise_option
@connected
def create(client: ApiClient, path: str | None, options: CreateOptions, detach: bool) -> None:
    """Make the volume that a file (`-`: standard input) describes; `volume init` writes an example.

    \b
      orchgit volume create volume.hcl
      orchgit volume create -name data -node 1a2b3c4d
    """
    if bool(path) == bool(options.name):
        raise click.UsageError("cannot make a volume: give a file, or -name")
    spec = _named(client, options) if options.name else _read(str(path), options.id)
    made = _stored(client, spec, "create")
    if made is None:
        return
    shown = f"Volume {made['Name']!r} ({short(made['ID'], options.verbose)})"
    click.echo(f"{shown} is on node {short(made['NodeID'], options.verbose)}.")
    if not detach:
        _follow(client, made)


@cli_command("register")
@click.argument("path")
@option("id", dest="volume_id", help="Change the volume with this id.")
@enterprise_option
@connected
def register(client: ApiClient, path: str, volume_id: str | None) -> None:
    """Make the volume known that a file (`-`: standard input) describes, and that exists."""
    made = _stored(client, _read(path, volume_id), "register")
    if made is not None:
        click.echo(f"Volume {made['Name']!r} ({short(made['ID'])}) is registered.")


@cli_command("delete")
@id_argument("identifier", VOLUME)
@option("type", dest="kind", type=click.Choice(("host", "csi")), help="Of which kind it is.")
@option("secret", multiple=True, help="For the plugin of a CSI volume, KEY=VALUE; repeatable.")
@option("force", is_flag=True, help="Also where its node is gone for good.")
@yes_option
@connected
def delete(
    client: ApiClient,
    identifier: str,
    kind: str | None,
    secret: tuple[str, ...],
    force: bool,
    yes: bool,
) -> None:
    """Delete a volume and its data."""
    found_kind, found = find_volume(client, identifier, (kind,) if kind else KINDS)
    if not yes and not click.confirm(f"Delete volume {found['Name']!r} and its data?"):
        return
    forced = "true" if force else None
    path = f"/v1/volume/{found_kind}/{quoted(found['ID'])}/delete"
    if secret and found_kind != "csi":
        raise click.UsageError("cannot give -secret: the volume is no CSI volume")
    client.raw(
        "DELETE", path, None, secrets_header(secret), namespace=found["Namespace"], force=forced
    )
    click.echo(f"Volume {short(found['ID'])} is deleted.")


@cli_command("deregister")
@id_argument("identifier", VOLUME)
@option("force", is_flag=True, help="Also where allocations use it.")
@connected
def deregister(client: ApiClient, identifier: str, force: bool) -> None:
    """Forget a CSI volume; its data stays."""
    _, found = find_volume(client, identifier, ("csi",))
    forced = "true" if force else None
    path = f"/v1/volume/csi/{quoted(found['ID'])}"
    client.delete(path, namespace=found["Namespace"], force=forced)
    click.echo(f"Volume {found['ID']!r} is forgotten.")


@cli_command("detach")
@id_argument("identifier", VOLUME)
@click.argument("node")
@connected
def detach(client: ApiClient, identifier: str, node: str) -> None:
    """Take a CSI volume from a node."""
    _, found = find_volume(client, identifier, ("csi",))
    node_id = client.find("node", "/v1/nodes", node)["ID"]
    client.delete(
        f"/v1/volume/csi/{quoted(found['ID'])}/detach", namespace=found["Namespace"], node=node_id
    )
    click.echo(f"Volume {found['ID']!r} is detached from node {short(node_id)}.")


def _named(client: ApiClient, options: CreateOptions) -> dict[str, Any]:
    node_id = client.find("node", "/v1/nodes", options.node)["ID"] if options.node else ""
    capability = {"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}
    return {
        "Name": options.name,
        "NodeID": node_id,
        "NodePool": options.node_pool,
        "PluginID": "mkdir",
        "RequestedCapabilities": [capability],
    }


def _read(path: str, volume_id: str | None) -> dict[str, Any]:
    if path != "-" and not os.path.exists(path):
        raise ApiError(
            f"cannot read {path}: there is no such file; `orchgit volume create -name {path}` "
            "makes a host volume without one"
        )
    (spec,) = read_spec(path, _ENTRIES)
    return {**spec, "ID": volume_id} if volume_id else spec


def _stored(client: ApiClient, spec: dict[str, Any], verb: str) -> dict[str, Any] | None:
    """Sends a volume; returns it as stored, or None for a CSI volume, of which it says so."""
    kind = str(spec.pop("Type", "") or "host").lower()
    if kind == "host":
        answer = client.put(f"/v1/volume/host/{verb}", {"Volume": spec})
        return dict(answer["Volume"])
    if kind != "csi":
        raise ApiError(f"cannot make a volume of type {kind!r}: write host or csi")
    suffix = "/create" if verb == "create" else ""
    path = f"/v1/volume/csi/{quoted(str(spec.get('ID') or ''))}{suffix}"
    client.put(path, {"Volumes": [_csi_form(spec)]})
    click.echo(f"Volume {spec.get('ID')!r} is {'made' if suffix else 'registered'}.")
    return None


def _csi_form(spec: dict[str, Any]) -> dict[str, Any]:
    """Returns the volume with the names that the API has for CSI volumes."""
    form = {_CSI_NAMES.get(name, name): value for name, value in spec.items()}
    wanted = form.get("RequestedTopologies")
    if isinstance(wanted, dict):
        form["RequestedTopologies"] = {
            name: each.get("Topologies", []) if isinstance(each, dict) else each
            for name, each in wanted.items()
        }
    return form


def _follow(client: ApiClient, made: dict[str, Any]) -> None:
    """Waits until a host volume can be used; raises ApiError where it cannot."""
    index, data = 0, made
    reads = PatientReads(client, f"volume {made['Name']!r}")
    while data["State"] == "pending":
        index, data = reads.blocking_get(
            f"/v1/volume/host/{made['ID']}", index, namespace=made["Namespace"]
        )
    if data["State"] != "ready":
        raise ApiError(f"cannot use volume {made['Name']!r}: it is {data['State']}")
