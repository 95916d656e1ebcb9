"""`orchgit status [ID]`: the jobs of the namespace, or anything by the beginning of its id."""

from __future__ import annotations

from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_command
from orchgit.cli.commands import alloc, deployment, eval, job, node
from orchgit.cli.options import connected, formatted, verbose_option
from orchgit.cli.printing.output_format import OutputFormat


@cli_command("status")
@click.argument("identifier", required=False)
@verbose_option
@formatted
@connected
def status(
    client: ApiClient,
    identifier: str | None,
    verbose: bool,
    output: OutputFormat,
) -> None:
    """The jobs of the namespace, or the status of what IDENTIFIER begins."""
    if identifier is None:
        job.show_list(client, output)
        return
    matches = client.post("/v1/search", {"Prefix": identifier, "Context": "all"})["Matches"] or {}
    shown: dict[str, Any] = {
        "jobs": lambda found: job.show_status(client, found, verbose, output),
        "allocs": lambda found: alloc.show_status(client, found, verbose, output),
        "nodes": lambda found: node.show_status(client, found, verbose, output),
        "evals": lambda found: eval.show_status(client, found, verbose, output),
        "deployment": lambda found: deployment.show_status(client, found, verbose, output),
    }
    found = [(kind, name) for kind in shown for name in matches.get(kind) or []]
    exact = [(kind, name) for kind, name in found if name == identifier]
    if len(exact or found) != 1:
        names = ", ".join(f"{kind} {name}" for kind, name in found[:5])
        raise ApiError(
            f"cannot tell what is meant: {identifier!r} matches {names}"
            if found
            else f"cannot find anything whose id begins with {identifier!r}"
        )
    kind, name = (exact or found)[0]
    shown[kind](name)
