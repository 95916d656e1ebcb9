"""`orchgit status [ID]`: the jobs of the namespace, or anything by the beginning of its id."""

from __future__ import annotations

from typing import Any

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_command
from orchgit.cli.commands import job_status
from orchgit.cli.completion import JOB, id_argument
from orchgit.cli.options import connected, formatted, ui_option, verbose_option
from orchgit.cli.printing.output_format import OutputFormat


@cli_command("status")
@id_argument("identifier", JOB, required=False)
@verbose_option
@ui_option
@formatted
@connected
def status(
    client: ApiClient,
    identifier: str | None,
    verbose: bool,
    output: OutputFormat,
) -> None:
    """List the jobs of the namespace, or show the object whose id begins with IDENTIFIER."""
    if identifier is None:
        job_status.show_list(client, output)
        return
    matches = client.post("/v1/search", {"Prefix": identifier, "Context": "all"})["Matches"] or {}
    found = [(kind, name) for kind in _KINDS for name in matches.get(kind) or []]
    exact = [(kind, name) for kind, name in found if name == identifier]
    if len(exact or found) != 1:
        names = ", ".join(f"{kind} {name}" for kind, name in found[:5])
        raise ApiError(
            f"cannot tell what is meant: {identifier!r} matches {names}"
            if found
            else f"cannot find anything whose id begins with {identifier!r}: `orchgit status` "
            "lists the jobs, -namespace selects another namespace"
        )
    kind, name = (exact or found)[0]
    _show(client, kind, name, verbose, output)


_KINDS = ("jobs", "allocs", "nodes", "evals", "deployment")


def _show(client: ApiClient, kind: str, name: str, verbose: bool, output: OutputFormat) -> None:
    """Prints the status of one thing, of a context of the search."""
    shown: Any
    if kind == "jobs":
        options = job_status.JobStatusOptions(verbose=verbose)
        job_status.show_status(client, name, output, options)
    elif kind == "allocs":
        from orchgit.cli.commands import alloc_status

        shown = alloc_status.StatusOptions(verbose=verbose)
        alloc_status.show_status(client, name, output, shown)
    elif kind == "nodes":
        from orchgit.cli.commands import node_status

        shown = node_status.NodeStatusOptions(verbose=verbose)
        node_status.show_status(client, name, output, shown)
    elif kind == "evals":
        from orchgit.cli.commands import eval

        eval.show_status(client, name, verbose, output)
    else:
        from orchgit.cli.commands import deployment

        deployment.show_status(client, name, verbose, output)
