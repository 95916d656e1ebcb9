"""`orchgit event stream`: the cluster's events as they happen."""

from __future__ import annotations

import json

import click

from orchgit.cli.client.http_client import ApiClient
from orchgit.cli.command import cli_group
from orchgit.cli.options import connected, option
from orchgit.cli.printing.output import console, plain


@cli_group("event")
def event() -> None:
    """Follow the cluster's events."""


@event.command("stream")
@option("topic", multiple=True, help="Topic or Topic:Key, such as Job:web; may be repeated.")
@option("index", type=int, help="Begin after this index.")
@option("json", dest="as_json", is_flag=True, help="Print each event as JSON.")
@connected
def stream(client: ApiClient, topic: tuple[str, ...], index: int | None, as_json: bool) -> None:
    """Print events until interrupted."""
    for line in client.stream_lines("/v1/event/stream", topic=list(topic), index=index):
        for found in json.loads(line).get("Events") or [] if line else []:
            if as_json:
                click.echo(json.dumps(found))
            else:
                what = f"{found['Topic']:<11} {found['Type']:<28} {plain(found['Key'])}"
                console().print(f"{found['Index']:>8} {what}")
