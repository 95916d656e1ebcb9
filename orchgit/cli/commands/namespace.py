"""`orchgit namespace`: list, apply, delete."""

from __future__ import annotations

import click

from orchgit.cli.client.http_client import ApiClient, ApiError, quoted
from orchgit.cli.command import cli_group
from orchgit.cli.options import connected, formatted, option
from orchgit.cli.printing.output import plain, table
from orchgit.cli.printing.output_format import OutputFormat

NOT_FOUND = 404


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
@option("description", default=None, help="What the namespace is for.")
@option("quota", default=None, help="The quota that limits its allocations; '' for none.")
@connected
def apply(client: ApiClient, name: str, description: str | None, quota: str | None) -> None:
    """Create a namespace, or change what the options say of it."""
    try:
        body = client.get(f"/v1/namespace/{quoted(name)}")
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
        body = {"Name": name}
    given = {"Description": description, "Quota": quota}
    body |= {key: value for key, value in given.items() if value is not None}
    client.put(f"/v1/namespace/{quoted(name)}", body)
    click.echo(f"Namespace {name!r} is applied.")


@namespace.command("delete")
@click.argument("name")
@connected
def delete(client: ApiClient, name: str) -> None:
    """Delete a namespace that holds no jobs."""
    client.delete(f"/v1/namespace/{quoted(name)}")
    click.echo(f"Namespace {name!r} is deleted.")
