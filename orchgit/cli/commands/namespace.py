"""`orchgit namespace`: list, apply, delete."""

from __future__ import annotations

import click

from orchgit.cli.client.http_client import ApiClient, quoted
from orchgit.cli.command import cli_group
from orchgit.cli.options import connected, formatted, option
from orchgit.cli.printing.output import plain, table
from orchgit.cli.printing.output_format import OutputFormat


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


@namespace.command("apply")
@click.argument("name")
@option("description", default="", help="What the namespace is for.")
@connected
def apply(client: ApiClient, name: str, description: str) -> None:
    """Create or change a namespace."""
    client.put(f"/v1/namespace/{quoted(name)}", {"Name": name, "Description": description})
    click.echo(f"Namespace {name!r} is applied.")


@namespace.command("delete")
@click.argument("name")
@connected
def delete(client: ApiClient, name: str) -> None:
    """Delete a namespace that holds no jobs."""
    client.delete(f"/v1/namespace/{quoted(name)}")
    click.echo(f"Namespace {name!r} is deleted.")
