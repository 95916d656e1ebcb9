"""`orchgit service`: services that tasks offer."""

from __future__ import annotations

from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, quoted
from orchgit.cli.command import cli_group
from orchgit.cli.completion import SERVICE, id_argument
from orchgit.cli.options import (
    PageOptions,
    connected,
    formatted,
    options_of,
    verbose_option,
)
from orchgit.cli.printing.output import pairs, plain, short, table
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.host_port import join_host_port


@cli_group("service")
def service() -> None:
    """Services that tasks offer."""


@service.command("list")
@formatted
@connected
def list_(client: ApiClient, output: OutputFormat) -> None:
    """The names of all services."""
    found = client.get("/v1/services")
    if output.printed(found):
        return
    shows_namespaces = client.namespace == "*"
    rows = sorted(
        (
            plain(each["ServiceName"]),
            *([plain(part["Namespace"])] * shows_namespaces),
            plain(f"[{','.join(sorted(each['Tags'] or []))}]"),
        )
        for part in found
        for each in part["Services"]
    )
    columns = ("Service Name", *(["Namespace"] * shows_namespaces), "Tags")
    table(columns, rows, empty="No service registrations found")


@service.command("info")
@id_argument("name", SERVICE)
@options_of(PageOptions, "page")
@verbose_option
@formatted
@connected
def info(
    client: ApiClient, name: str, page: PageOptions, verbose: bool, output: OutputFormat
) -> None:
    """Where a service is: each allocation that offers it, and its address."""
    found = page.get(client, f"/v1/service/{quoted(name)}")
    if output.printed(found):
        return
    if verbose:
        for number, each in enumerate(found):
            if number:
                click.echo()
            _show(each)
        return
    table(
        ("Job ID", "Address", "Tags", "Node ID", "Alloc ID"),
        (
            (
                plain(each["JobID"]),
                plain(_address(each)),
                plain(f"[{','.join(each['Tags'] or [])}]"),
                short(each["NodeID"]),
                short(each["AllocID"]),
            )
            for each in found
        ),
        empty=f"No allocation offers service {name}: `orchgit service list` lists what there is",
    )


@service.command("delete")
@id_argument("name", SERVICE)
@click.argument("identifier")
@connected
def delete(client: ApiClient, name: str, identifier: str) -> None:
    """Delete one registration of a service, by its id; `service info -verbose` shows the ids.

    Only for one that its agent left behind: an agent registers what runs again.
    """
    client.delete(f"/v1/service/{quoted(name)}/{quoted(identifier)}")
    click.echo(f"Registration {identifier} of service {name!r} is deleted.")


def _show(each: dict[str, Any]) -> None:
    pairs(
        (
            ("ID", plain(each["ID"])),
            ("Service Name", plain(each["ServiceName"])),
            ("Namespace", plain(each["Namespace"])),
            ("Job ID", plain(each["JobID"])),
            ("Alloc ID", each["AllocID"]),
            ("Node ID", each["NodeID"]),
            ("Datacenter", plain(each["Datacenter"])),
            ("Address", plain(_address(each))),
            ("Tags", plain(f"[{','.join(each['Tags'] or [])}]")),
        )
    )


def _address(each: dict[str, Any]) -> str:
    return join_host_port(each["Address"], each["Port"]) if each["Port"] else str(each["Address"])
