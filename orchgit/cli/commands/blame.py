"""`orchgit blame WHAT`: the commit, author and line that something comes from."""

from __future__ import annotations

from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError, quoted
from orchgit.cli.command import cli_command
from orchgit.cli.options import connected, formatted, option
from orchgit.cli.printing.output import ago, heading, pairs, plain, short, table
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.cli.printing.tokens import token_row

TYPES = ("allocation", "node", "claim", "volume", "job", "variable")


@cli_command("blame")
@click.argument("what")
@option("type", dest="type_", type=click.Choice(TYPES), help="What it is, if names are alike.")
@option("group", help="A group of a job.")
@formatted
@connected
def blame(
    client: ApiClient, what: str, type_: str | None, group: str | None, output: OutputFormat
) -> None:
    """Show the commit, author and job file line that WHAT comes from, and who changed it by hand.

    WHAT is an allocation, a node, a volume or a claim on one (its id or the beginning of it, at
    least four characters), a job, the name of a node or volume, or the path of a variable.
    """
    data = client.get(f"/v1/gitops/blame/{quoted(what)}", type=type_, group=group)
    if output.printed(data):
        return
    pairs((*_thing(data), *_origin(data)))
    if data["Origins"]:
        heading("Comes from")
        table(
            ("Job", "Group", "Allocs", "Commit", "File", "Author", "Subject"),
            (
                (
                    plain(each["JobID"]),
                    plain(each["TaskGroup"] or "-"),
                    each["Allocations"] or "-",
                    short(each["CommitID"]) or "by hand",
                    plain(where(each) or "-"),
                    plain(each["Author"]),
                    plain(each["Subject"]),
                )
                for each in data["Origins"]
            ),
        )
    if data["MoreOrigins"]:
        click.echo(f"and {data['MoreOrigins']} more")


def _thing(data: dict[str, Any]) -> tuple[tuple[str, object], ...]:
    node = plain(f"{data['NodeName']} ({short(data['NodeID'])})") if data["NodeID"] else ""
    volume = f"{data['VolumeName']} ({short(data['VolumeID'])})" if data["VolumeID"] else ""
    return (
        ("Allocation", short(data["AllocID"])),
        ("Claim", short(data["ClaimID"])),
        ("Volume", plain(volume)),
        ("Variable", plain(data["Path"])),
        ("Namespace", plain(data["Namespace"]) if data["Namespace"] != "default" else ""),
        ("Node", node),
        ("Created", ago(data["CreateTime"]) if data["CreateTime"] else ""),
        ("Changed", ago(data["ModifyTime"]) if data["ModifyTime"] else ""),
        token_row(data.get("Token")),
    )


def _origin(data: dict[str, Any]) -> tuple[tuple[str, object], ...]:
    if not data["JobID"]:
        return ()
    by_hand, drift = data["ChangedBy"], data["Drift"]
    author = f"{data['Author']} <{data['Email']}>" if data["Email"] else data["Author"]
    groups = [f"{name} at line {line}" for name, line in sorted(data["GroupLines"].items())]
    return (
        ("Job", plain(f"{data['JobID']} version {data['JobVersion']}")),
        ("Group", plain(data["TaskGroup"])),
        ("Changed by hand", plain(changed_by_text(by_hand)) if by_hand else ""),
        ("Drift", plain(f"{drift['Kind']} since {ago(drift['Since'])}") if drift else ""),
        ("Drift made by", plain(drift["ChangedBy"]) if drift else ""),
        ("Source", plain(data["Source"])),
        ("Commit", data["CommitID"] or "<not from git>"),
        ("Author", plain(author)),
        ("Subject", plain(data["Subject"])),
        ("Committed", ago(data["CommitTime"]) if data["CommitTime"] else ""),
        ("File", plain(where(data))),
        ("Groups", plain(", ".join(groups))),
        ("Rollout", short(data["RolloutID"])),
    )


def where(data: dict[str, Any]) -> str:
    """Returns `file:line` of the group's block, or of the job's where that is not known."""
    if not data["File"]:
        return ""
    return f"{data['File']}:{data['GroupLine'] or data['Line']}"


def changed_by_text(by: dict[str, Any]) -> str:
    """Returns who changed a job by hand, how and when."""
    name = by["User"] or "unknown"
    claimed = " (claimed)" if by["User"] and not by["IsVerified"] else ""
    source = f" from {by['Address']}" if by["Address"] else ""
    when = f", {ago(by['Time'])}" if by["Time"] else ""
    return f"{name}{claimed}{source} by job {by['Via']}{when}"


def fetch_blame(client: ApiClient, identifier: str) -> dict[str, Any]:
    """Returns the origin of an allocation, or {} if it has none."""
    try:
        return dict(client.get(f"/v1/gitops/blame/{identifier}", type="allocation"))
    except ApiError as error:
        if error.status == 404:
            return {}
        raise
