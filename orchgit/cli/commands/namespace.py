"""`orchgit namespace`: list, status, inspect, apply, delete."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from orchgit.cli.client.by_name import find_by_name
from orchgit.cli.client.http_client import ApiClient, ApiError, quoted
from orchgit.cli.command import cli_group
from orchgit.cli.completion import NAMESPACE, id_argument
from orchgit.cli.job_files.specs import SpecEntry, plain_value, read_spec, text_map
from orchgit.cli.options import connected, formatted, option
from orchgit.cli.printing.output import heading, pairs, plain, table
from orchgit.cli.printing.output_format import OutputFormat

_CAPABILITIES = {
    "enabled_task_drivers": SpecEntry("EnabledTaskDrivers", plain_value),
    "disabled_task_drivers": SpecEntry("DisabledTaskDrivers", plain_value),
    "enabled_network_modes": SpecEntry("EnabledNetworkModes", plain_value),
    "disabled_network_modes": SpecEntry("DisabledNetworkModes", plain_value),
}
_ENTRIES = {
    "name": SpecEntry("Name", plain_value),
    "description": SpecEntry("Description", plain_value),
    "quota": SpecEntry("Quota", plain_value),
    "meta": SpecEntry("Meta", text_map),
    "capabilities": SpecEntry("Capabilities", _CAPABILITIES),
}


@cli_group("namespace")
def namespace() -> None:
    """Manage namespaces."""


@namespace.command("list")
@formatted
@connected
def list_(client: ApiClient, output: OutputFormat) -> None:
    """All namespaces."""
    found = client.get("/v1/namespaces")
    if not output.printed(found):
        table(
            ("Name", "Description"),
            ((plain(each["Name"]), plain(each["Description"])) for each in found),
        )


@namespace.command("status")
@id_argument("name", NAMESPACE)
@formatted
@connected
def status(client: ApiClient, name: str, output: OutputFormat) -> None:
    """One namespace: what it is for, and what its jobs may use."""
    found = find_by_name(client, "namespace", "/v1/namespaces", name)
    if output.printed(found):
        return
    capabilities = found.get("Capabilities") or {}
    named = (
        (f"{verb} {kind}", capabilities.get(f"{verb}{key}") or [unset])
        for kind, key in (("Drivers", "TaskDrivers"), ("Network Modes", "NetworkModes"))
        for verb, unset in (("Enabled", "*"), ("Disabled", "<none>"))
    )
    pairs(
        (
            ("Name", plain(found["Name"])),
            ("Description", plain(found["Description"] or "<none>")),
            ("Quota", plain(found.get("Quota") or "<none>")),
            *((title, plain(",".join(each))) for title, each in named),
        )
    )
    if found.get("Meta"):
        heading("Metadata")
        pairs((plain(key), plain(value)) for key, value in sorted(found["Meta"].items()))


@namespace.command("inspect")
@id_argument("name", NAMESPACE)
@formatted
@connected
def inspect(client: ApiClient, name: str, output: OutputFormat) -> None:
    """One namespace as JSON."""
    found = find_by_name(client, "namespace", "/v1/namespaces", name)
    if not output.printed(found):
        click.echo(json.dumps(found, indent=4))


@namespace.command("apply")
@id_argument("name", NAMESPACE)
@option("description", help="What the namespace is for.")
@option("quota", help="The quota that its jobs share.")
@option("json", dest="as_json", is_flag=True, help="NAME is a file in JSON.")
@connected
def apply(
    client: ApiClient, name: str, description: str | None, quota: str | None, as_json: bool
) -> None:
    """Create or change a namespace: NAME, or what a file (`-`: standard input) describes."""
    if as_json or name == "-" or os.path.isfile(name):
        (body,) = read_spec(name, _ENTRIES, as_json=as_json)
        if not body.get("Name"):
            raise ApiError(f"cannot apply {name}: it names no namespace")
    else:
        body = _current(client, name)
    changes = {"Description": description, "Quota": quota}
    body |= {key: value for key, value in changes.items() if value is not None}
    client.put(f"/v1/namespace/{quoted(body['Name'])}", body)
    click.echo(f"Namespace {body['Name']!r} is applied.")


@namespace.command("delete")
@id_argument("name", NAMESPACE)
@connected
def delete(client: ApiClient, name: str) -> None:
    """Delete a namespace that holds no jobs."""
    try:
        client.delete(f"/v1/namespace/{quoted(name)}")
    except ApiError as error:
        if error.status != 404:
            raise
        click.echo(f"Namespace {name!r} did not exist.")
        return
    click.echo(f"Namespace {name!r} is deleted.")


def _current(client: ApiClient, name: str) -> dict[str, Any]:
    """Returns the namespace as it is, so that a change keeps the rest of it."""
    try:
        return dict(client.get(f"/v1/namespace/{quoted(name)}"))
    except ApiError as error:
        if error.status != 404:
            raise
        return {"Name": name}
