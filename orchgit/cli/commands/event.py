"""`orchgit event stream`: the cluster's events as they happen."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.client.patient_reads import FaultNotices, Patience
from orchgit.cli.command import cli_group
from orchgit.cli.options import connected, option
from orchgit.cli.printing.output import console, plain

_SILENCE_S = 75.0
"""Servers show each 30 s that a stream lives."""
_GONE = 410


@cli_group("event")
def event() -> None:
    """Follow the cluster's events."""


@event.command("stream")
@option("topic", multiple=True, help="Topic or Topic:Key, such as Job:web; may be repeated.")
@option("index", type=int, help="Begin after this index.")
@option("json", dest="as_json", is_flag=True, help="Print each event as JSON.")
@connected
def stream(client: ApiClient, topic: tuple[str, ...], index: int | None, as_json: bool) -> None:
    """Print events until interrupted, over the death of servers too."""
    begin = index

    is_stream = False

    def lines(opened: Callable[[], None]) -> Iterator[str]:
        nonlocal is_stream
        seen = opened if is_stream else _nothing
        found = client.stream_lines(
            "/v1/event/stream", seen, _SILENCE_S, topic=list(topic), index=begin
        )
        for number, line in enumerate(found):
            # What brings one line without an event and ends is no server: it is not asked again.
            if not is_stream and (number or '"Index"' in line):
                is_stream = True
                opened()
            yield line

    patience = Patience(FaultNotices("the cluster's events"))
    for line in patience.stream(lines, has_end=False):
        batch = json.loads(line) if line else {}
        if batch.get("Error"):
            raise ApiError(batch["Error"], _GONE)
        for found in batch.get("Events") or []:
            if as_json:
                click.echo(json.dumps(found))
            else:
                what = f"{found['Topic']:<11} {found['Type']:<28} {plain(found['Key'])}"
                console().print(f"{found['Index']:>8} {what}")
        if batch.get("Index"):
            begin = int(batch["Index"]) + 1


def _nothing() -> None:
    """The answer is not known to be a stream of events yet."""
