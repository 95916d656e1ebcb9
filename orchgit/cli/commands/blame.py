"""`orchgit blame ID`: the commit that an allocation or a volume claim came from."""

from __future__ import annotations

from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.options import connected, formatted
from orchgit.cli.printing.output import ago, pairs, plain, short
from orchgit.cli.printing.output_format import OutputFormat


@click.command("blame")
@click.argument("identifier")
@formatted
@connected
def blame(client: ApiClient, identifier: str, output: OutputFormat) -> None:
    """Show the commit, author and job file line that an allocation or volume claim comes from."""
    data = client.get(f"/v1/gitops/blame/{identifier}")
    if output.printed(data):
        return
    where = f"{data['File']}:{data['Line']}" if data.get("File") else ""
    pairs(
        (
            ("Allocation", short(data.get("AllocID") or "")),
            ("Node", plain(data.get("NodeName") or "")),
            ("Job", plain(f"{data['JobID']} version {data['JobVersion']}")),
            ("Group", plain(data.get("TaskGroup") or "")),
            ("Source", plain(data.get("Source") or "")),
            ("Commit", data.get("CommitID") or "<not from git>"),
            ("Author", plain(data.get("Author") or "")),
            ("Subject", plain(data.get("Subject") or "")),
            ("Committed", ago(data["CommitTime"]) if data.get("CommitTime") else ""),
            ("File", plain(where)),
            ("Rollout", short(data.get("RolloutID") or "")),
        )
    )


def fetch_blame(client: ApiClient, identifier: str) -> dict[str, Any]:
    """Returns the origin of an allocation, or {} if it has none."""
    try:
        return dict(client.get(f"/v1/gitops/blame/{identifier}"))
    except ApiError as error:
        if error.status == 404:
            return {}
        raise
