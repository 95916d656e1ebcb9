"""`orchgit event stream`: the cluster's events as they happen."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.client.patient_reads import FaultNotices, Patience
from orchgit.cli.command import cli_group
from orchgit.cli.go_flags import nearest
from orchgit.cli.options import connected, option
from orchgit.cli.printing.output import console, plain

_SILENCE_S = 75.0
"""Servers show each 30 s that a stream lives."""
_GONE = 410
_LOWER_INDEX = "==> The cluster's state has not reached index {}; its events go on at {}."


TOPICS = (
    *("Job", "Evaluation", "Allocation", "Deployment", "Node", "NodePool", "HostVolume"),
    *("CSIVolume", "Service", "Variable", "Source", "SourceHealthChange", "Rollout", "JobDrift"),
    *("ACLToken", "ACLPolicy", "ACLRole", "ACLAuthMethod", "ACLBindingRule", "Operator", "*"),
)
"""Of orchgit's servers and of Nomad's."""


@cli_group("event")
def event() -> None:
    """Follow the cluster's events."""


@event.command("stream")
@option("topic", multiple=True, help="Topic or Topic:Key, such as Job:web; may be repeated.")
@option("index", type=int, help="Begin at this index; default: the oldest event kept.")
@option("json", dest="as_json", is_flag=True, help="Print each event as JSON.")
@connected
def stream(client: ApiClient, topic: tuple[str, ...], index: int | None, as_json: bool) -> None:
    """Print events until interrupted, over the death of servers too."""
    begin = index
    for each in topic:
        _warn_of_unknown(each.partition(":")[0])

    def lines(opened: Callable[[], None]) -> Iterator[str]:
        return client.stream_lines(
            "/v1/event/stream", opened, _SILENCE_S, topic=list(topic), index=begin
        )

    patience = Patience(FaultNotices("the cluster's events"))
    for line in patience.stream(lines, has_end=False):
        batch = json.loads(line) if line else {}
        if batch.get("Error"):
            raise ApiError(batch["Error"], _GONE)
        if begin and batch.get("Index", begin) < begin:
            click.echo(_LOWER_INDEX.format(begin - 1, batch["Index"]), err=True)
        for found in batch.get("Events") or []:
            if as_json:
                click.echo(json.dumps(found))
            else:
                what = f"{found['Topic']:<11} {found['Type']:<28} {plain(found['Key'])}"
                console().print(f"{found['Index']:>8} {what}")
        if batch.get("Index"):
            begin = int(batch["Index"]) + 1


def _warn_of_unknown(topic: str) -> None:
    """Servers take any topic, and tell nothing of one that they do not have."""
    if topic not in TOPICS:
        by_lower = {each.lower(): each for each in TOPICS}
        near = [by_lower[each] for each in nearest(topic.lower(), by_lower)]
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(TOPICS)}"
        click.echo(f"Warning: no server has events of topic {topic!r}: {hint}", err=True)
