"""`orchgit node pool`: sets of nodes that jobs choose from."""

from __future__ import annotations

import json
from pathlib import Path

import click

from orchgit.cli.client.by_name import find_by_name
from orchgit.cli.client.http_client import ApiClient, quoted
from orchgit.cli.command import cli_group
from orchgit.cli.commands.job_status import show_jobs
from orchgit.cli.completion import NODE_POOL, id_argument
from orchgit.cli.job_files.example_file import write_example
from orchgit.cli.job_files.specs import SpecEntry, duration_ns, plain_value, read_spec, text_map
from orchgit.cli.options import (
    PageOptions,
    connected,
    formatted,
    option,
    options_of,
    verbose_option,
)
from orchgit.cli.printing.output import duration, heading, pairs, plain, short, styled, table
from orchgit.cli.printing.output_format import OutputFormat

EXAMPLE = """\
node_pool "example" {
  description = "Example node pool"

  # Meta for people and programs; orchgit does not read it.
  meta {
    environment = "test"
    owner       = "sre"
  }
}
"""
_EXAMPLE_JSON = {
    "Name": "example",
    "Description": "Example node pool",
    "Meta": {"environment": "test", "owner": "sre"},
}
_ENTRIES = {
    "description": SpecEntry("Description", plain_value),
    "meta": SpecEntry("Meta", text_map),
    "node_identity_ttl": SpecEntry("NodeIdentityTTL", duration_ns),
}


@cli_group("pool")
def pool() -> None:
    """Sets of nodes that jobs choose from."""


@pool.command("list")
@options_of(PageOptions, "page")
@formatted
@connected
def list_(client: ApiClient, page: PageOptions, output: OutputFormat) -> None:
    """All node pools."""
    found = page.get(client, "/v1/node/pools")
    if not output.printed(found):
        table(
            ("Name", "Description"),
            ((plain(each["Name"]), plain(each["Description"] or "<none>")) for each in found),
            empty="No node pools",
        )


@pool.command("info")
@id_argument("name", NODE_POOL)
@formatted
@connected
def info(client: ApiClient, name: str, output: OutputFormat) -> None:
    """One node pool."""
    found = find_by_name(client, "node pool", "/v1/node/pools", name)
    if output.printed(found):
        return
    pairs(
        (
            ("Name", plain(found["Name"])),
            ("Description", plain(found["Description"] or "<none>")),
            ("Node Identity TTL", duration(found.get("NodeIdentityTTL") or 0)),
        )
    )
    heading("Metadata")
    if found["Meta"]:
        pairs((plain(key), plain(value)) for key, value in sorted(found["Meta"].items()))
    else:
        click.echo("No metadata")
    heading("Scheduler Configuration")
    config = found.get("SchedulerConfiguration") or {}
    if config:
        pairs((key, str(value)) for key, value in sorted(config.items()))
    else:
        click.echo("No scheduler configuration")


@pool.command("nodes")
@id_argument("name", NODE_POOL)
@options_of(PageOptions, "page")
@verbose_option
@formatted
@connected
def nodes(
    client: ApiClient, name: str, page: PageOptions, verbose: bool, output: OutputFormat
) -> None:
    """The nodes of a pool."""
    found = page.get(client, _path(client, name) + "/nodes")
    if output.printed(found):
        return
    more = ("Address", "Version") if verbose else ()
    table(
        ("ID", "DC", "Name", "Class", *more, "Drain", "Eligibility", "Status"),
        (
            (
                short(each["ID"], verbose),
                plain(each["Datacenter"]),
                plain(each["Name"]),
                plain(each["NodeClass"] or "<none>"),
                *(plain(each[key]) for key in more),
                str(each["Drain"]).lower(),
                each["SchedulingEligibility"],
                styled(each["Status"]),
            )
            for each in found
        ),
        empty="No nodes",
    )


@pool.command("jobs")
@id_argument("name", NODE_POOL)
@options_of(PageOptions, "page")
@formatted
@connected
def jobs(client: ApiClient, name: str, page: PageOptions, output: OutputFormat) -> None:
    """The jobs that use a pool."""
    found = page.get(client, _path(client, name) + "/jobs")
    if not output.printed(found):
        show_jobs(found)


@pool.command("apply")
@click.argument("path")
@option("json", dest="as_json", is_flag=True, help="The file is JSON.")
@connected
def apply(client: ApiClient, path: str, as_json: bool) -> None:
    """Create or change the node pools of a file (`-`: of standard input)."""
    for body in read_spec(path, _ENTRIES, "node_pool", as_json):
        name = str(body["Name"])
        client.put(f"/v1/node/pool/{quoted(name)}", body)
        click.echo(f"Node pool {name!r} is applied.")


@pool.command("delete")
@id_argument("name", NODE_POOL)
@connected
def delete(client: ApiClient, name: str) -> None:
    """Delete a node pool that no node and no job is in."""
    client.delete(f"/v1/node/pool/{quoted(name)}")
    click.echo(f"Node pool {name!r} is deleted.")


@pool.command("init")
@click.argument("path", required=False)
@option("json", dest="as_json", is_flag=True, help="Write JSON.")
@option("out", type=click.Choice(("hcl", "json")), help="The form of the example.")
@option("quiet", is_flag=True, help="Say nothing.")
def init(path: str | None, as_json: bool, out: str | None, quiet: bool) -> None:
    """Write an example of a node pool."""
    is_json = as_json or out == "json"
    target = Path(path or ("pool.nomad.json" if is_json else "pool.nomad.hcl"))
    write_example(target, json.dumps(_EXAMPLE_JSON, indent=2) + "\n" if is_json else EXAMPLE)
    if not quiet:
        click.echo(f"Example node pool specification written to {target}")


def _path(client: ApiClient, name: str) -> str:
    pool = find_by_name(client, "node pool", "/v1/node/pools", name)
    return f"/v1/node/pool/{quoted(pool['Name'])}"
