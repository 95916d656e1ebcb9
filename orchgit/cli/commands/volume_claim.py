"""`orchgit volume claim`: which group owns which sticky volume."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient
from orchgit.cli.command import cli_command, cli_group
from orchgit.cli.completion import CLAIM, id_argument
from orchgit.cli.options import connected, formatted, option, verbose_option
from orchgit.cli.printing.commit_text import commit_line
from orchgit.cli.printing.output import plain, short, table
from orchgit.cli.printing.output_format import OutputFormat


@cli_group("claim")
def claim() -> None:
    """Which group owns which sticky volume."""


def _filters(command: Callable[..., Any]) -> Callable[..., Any]:
    for name, says in (
        ("volume-name", "Only claims on volumes of this name."),
        ("group", "Only claims of this group."),
        ("job", "Only claims of this job."),
    ):
        command = option(name, help=says)(command)
    return command


@claim.command("list", ignores_extra=True)
@_filters
@verbose_option
@formatted
@connected
def list_(client: ApiClient, verbose: bool, output: OutputFormat, **given: str | None) -> None:
    """Which group owns which sticky volume, and since which commit."""
    wanted = {
        "JobID": given["job"],
        "TaskGroupName": given["group"],
        "VolumeName": given["volume_name"],
    }
    found = [
        each
        for each in client.get("/v1/volumes/claims")
        if all(value in (None, each[key]) for key, value in wanted.items())
    ]
    if output.printed(found):
        return
    table(
        ("ID", "Job", "Group", "Volume", "Volume ID", "Allocation", "Commit"),
        (
            (
                short(each["ID"], verbose),
                plain(each["JobID"]),
                plain(each["TaskGroupName"]),
                plain(each["VolumeName"]),
                short(each["VolumeID"], verbose),
                short(each["AllocID"], verbose),
                commit_line(client, each, verbose) or "-",
            )
            for each in found
        ),
        empty="No claims",
    )


@cli_command("delete")
@id_argument("identifier", CLAIM)
@option("y", "yes", dest="yes", is_flag=True, help="Do not ask for confirmation.")
@connected
def unclaim(client: ApiClient, identifier: str, yes: bool) -> None:
    """Free a group from its volume; what runs goes on running."""
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("cannot ask: standard input is no terminal; give -y")
    found = client.find("claim", "/v1/volumes/claims", identifier)
    question = f"Free group {found['TaskGroupName']!r} of job {found['JobID']!r} from its volume?"
    if yes or click.confirm(question):
        client.delete(f"/v1/volumes/claim/{found['ID']}")
        click.echo(f"Claim {short(found['ID'])} is deleted.")


claims = list_
claim.add_command(unclaim)
