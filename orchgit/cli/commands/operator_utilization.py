"""`orchgit operator utilization`: a report of how much of the cluster is used."""

from __future__ import annotations

import base64
import time
from pathlib import Path

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_command
from orchgit.cli.options import connected, option

_NO_SUCH_METHOD = 405


@cli_command("utilization")
@option("message", default="", help="A note in the report.")
@option("output", "out", dest="path", help="The file to write.")
@option("today-only", is_flag=True, help="Only what was counted today.")
@connected
def utilization(client: ApiClient, message: str, path: str | None, today_only: bool) -> None:
    """Write a report of how much of the cluster is used (Nomad Enterprise).

    A server of orchgit refuses it; `orchgit sql` answers the same questions.
    """
    body = {"Message": message, "TodayOnly": today_only}
    try:
        answer = client.post("/v1/operator/utilization", body)
    except ApiError as error:
        if error.status != _NO_SUCH_METHOD:
            raise
        raise ApiError(
            "cannot write the report: only servers of Nomad Enterprise make one; ask by "
            "`orchgit sql`, as in: orchgit sql 'select * from nodes'",
            _NO_SUCH_METHOD,
        ) from error
    target = Path(path or f"orchgit-utilization-{time.strftime('%Y%m%d-%H%M%S')}.json")
    if target.exists():
        raise ApiError(f"cannot write {target}: it exists already; name another file")
    target.write_bytes(base64.b64decode(answer["Bundle"]))
    click.echo(f"The report is written to {target}.")
