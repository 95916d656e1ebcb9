"""`orchgit quota`: apply, delete, init, inspect, list, status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from orchgit.cli.client.by_name import find_by_name
from orchgit.cli.client.http_client import ApiClient, quoted
from orchgit.cli.command import cli_group
from orchgit.cli.input_text import text_of_path
from orchgit.cli.options import connected, formatted, option
from orchgit.cli.printing.output import pairs, plain, table
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.errors import InvalidInputError

_AMOUNTS = {
    "cpu": "CPU",
    "cores": "Cores",
    "memory": "MemoryMB",
    "memory_max": "MemoryMaxMB",
}
_EXAMPLE_HCL = """name        = "default-quota"
description = "Limit the shared default namespace"

# What the allocations of all namespaces with this quota may take together.
# An amount of 0 sets no limit, a negative one allows nothing.
limit {
  region_limit {
    cpu        = 2500 # MHz
    cores      = 0
    memory     = 1000 # MiB
    memory_max = 1000
  }
}
"""
_EXAMPLE_JSON = {
    "Name": "default-quota",
    "Description": "Limit the shared default namespace",
    "Limits": [
        {"RegionLimit": {"CPU": 2500, "Cores": 0, "MemoryMB": 1000, "MemoryMaxMB": 1000}},
    ],
}


@cli_group("quota")
def quota() -> None:
    """Limit what the allocations of namespaces take."""


@quota.command("apply")
@click.argument("path")
@option(
    "json", dest="as_json", is_flag=True, help="The specification is JSON, as the API takes it."
)
@connected
def apply(client: ApiClient, path: str, as_json: bool) -> None:
    """Create or change a quota; PATH is its specification, or - for standard input.

    `orchgit quota init` writes an example.
    """
    text, name = text_of_path(path), "stdin" if path == "-" else path
    spec = _of_json(text, name) if as_json else _of_hcl(text, name)
    client.put("/v1/quota", spec)
    click.echo(f'Successfully applied quota specification "{spec.get("Name")}"!')


def _of_json(text: str, path: str) -> dict[str, Any]:
    try:
        spec = json.loads(text)
    except ValueError as error:
        raise InvalidInputError(f"cannot read {path}: {error}") from error
    if not isinstance(spec, dict):
        raise InvalidInputError(f"cannot read {path}: it is no JSON object")
    return spec


def _of_hcl(text: str, path: str) -> dict[str, Any]:
    """Returns the specification as the API takes it. Raises InvalidInputError with the place of a
    key that it does not have."""
    # Few commands read a file, and every command should start fast.
    from orchgit.hcl1.parse import parse
    from orchgit.hcl1.tree import Hcl1Body, Literal

    def values(body: Hcl1Body, known: dict[str, str], blocks: tuple[str, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for item in body.items:
            if item.name in blocks:
                continue
            if item.name not in known or not isinstance(item.value, Literal):
                allowed = ", ".join((*known, *blocks))
                raise InvalidInputError(
                    f"{item.position}: cannot use {item.name!r} here: it takes {allowed}"
                )
            found[known[item.name]] = item.value.value
        return found

    body = parse(text, path)
    spec = values(body, {"name": "Name", "description": "Description"}, ("limit",))
    spec["Limits"] = []
    for limit in body.blocks("limit"):
        found = values(limit, {"region": "Region"}, ("region_limit",))
        for amounts in limit.blocks("region_limit"):
            found["RegionLimit"] = values(amounts, _AMOUNTS, ())
        spec["Limits"].append(found)
    return spec


@quota.command("delete")
@click.argument("name")
@connected
def delete(client: ApiClient, name: str) -> None:
    """Delete a quota that no namespace has."""
    client.delete(f"/v1/quota/{quoted(name)}")
    click.echo(f'Successfully deleted quota "{name}"!')


@quota.command("init")
@click.argument("filename", default="")
@option("json", dest="as_json", is_flag=True, help="Write JSON.")
def init(filename: str, as_json: bool) -> None:
    """Write an example of a quota's specification, to spec.hcl or FILENAME."""
    name = filename or ("spec.json" if as_json else "spec.hcl")
    try:
        with Path(name).open("x") as file:
            file.write(json.dumps(_EXAMPLE_JSON, indent=2) + "\n" if as_json else _EXAMPLE_HCL)
    except FileExistsError as error:
        raise InvalidInputError(f"cannot write {name}: it is there already") from error
    except OSError as error:
        raise InvalidInputError(f"cannot write {name}: {error.strerror or error}") from error
    click.echo(f"Example quota specification written to {name}")


@quota.command("inspect")
@click.argument("name")
@formatted
@connected
def inspect(client: ApiClient, name: str, output: OutputFormat) -> None:
    """A quota and what is taken of it, as JSON."""
    spec = find_by_name(client, "quota", "/v1/quotas", name)
    usage = client.get(f"/v1/quota/usage/{quoted(spec['Name'])}")
    regions = {each["Region"]: usage for each in spec["Limits"]}
    shown = {"Spec": spec, "UsageMap": regions}
    if not output.printed(shown):
        click.echo(json.dumps(shown, indent=4))


@quota.command("list")
@formatted
@connected
def list_(client: ApiClient, output: OutputFormat) -> None:
    """All quotas."""
    found = client.get("/v1/quotas")
    if not output.printed(found):
        table(
            ("Name", "Description"),
            ((plain(each["Name"]), plain(each["Description"])) for each in found),
            empty="No quotas found",
        )


@quota.command("status")
@click.argument("name")
@formatted
@connected
def status(client: ApiClient, name: str, output: OutputFormat) -> None:
    """How much of a quota is taken."""
    spec = find_by_name(client, "quota", "/v1/quotas", name)
    if output.printed(spec):
        return
    usage = client.get(f"/v1/quota/usage/{quoted(spec['Name'])}")
    pairs(
        [
            ("Name", plain(spec["Name"])),
            ("Description", plain(spec["Description"]) or "<none>"),
            ("Limits", len(spec["Limits"])),
        ]
    )
    click.echo("\nQuota Limits")
    table(
        ("Region", "CPU Usage", "Core Usage", "Memory Usage", "Memory Max Usage"),
        (
            (plain(limit["Region"]), *_used(limit, usage["Used"].get(limit["Hash"])))
            for limit in spec["Limits"]
        ),
    )


def _used(limit: dict[str, Any], used: dict[str, Any] | None) -> list[str]:
    cells = []
    for key in _AMOUNTS.values():
        most = limit["RegionLimit"][key]
        allowed = "inf" if not most else str(max(0, most))
        cells.append(f"{used['RegionLimit'][key] if used else '-'} / {allowed}")
    return cells
