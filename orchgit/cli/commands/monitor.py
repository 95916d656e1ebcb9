"""`orchgit monitor`: what a server or client logs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient
from orchgit.cli.client.log_frames import file_data
from orchgit.cli.client.patient_reads import FaultNotices, Patience
from orchgit.cli.command import cli_group
from orchgit.cli.commands.node_find import find_node
from orchgit.cli.options import connected, length, option_field, options_of
from orchgit.cli.printing.terminal import raw_stream


@dataclass(frozen=True, slots=True)
class MonitorOptions:
    log_level: str | None = option_field("log-level", help="TRACE, DEBUG, INFO, WARN or ERROR.")
    node_id: str | None = option_field("node-id", help="The log of this node's agent.")
    server_id: str | None = option_field("server-id", help="The log of this server.")
    json: bool = option_field("json", is_flag=True, help="Log lines as JSON objects.")
    include_location: bool = option_field(
        "log-include-location", is_flag=True, help="With the file and line of each entry."
    )

    def params(self, client: ApiClient) -> dict[str, Any]:
        if self.node_id and self.server_id:
            raise click.UsageError("cannot tell whose log: give -node-id or -server-id, not both")
        return {
            "log_level": self.log_level,
            "node_id": find_node(client, self.node_id)["ID"] if self.node_id else None,
            "server_id": self.server_id,
            "log_json": "true" if self.json else None,
            "log_include_location": "true" if self.include_location else None,
        }


@cli_group("monitor", invoke_without_command=True)
@options_of(MonitorOptions)
@connected
@click.pass_context
def monitor(context: click.Context, client: ApiClient, options: MonitorOptions) -> None:
    """Follow the log of a server or client, until interrupted."""
    if context.invoked_subcommand is None:
        params = options.params(client)
        patience = Patience(FaultNotices("the log"))

        def log(opened: Callable[[], None]) -> Iterator[str]:
            return _decoded(client.stream_text("/v1/agent/monitor", opened, **params))

        _print(patience.stream(log, has_end=False))


@dataclass(frozen=True, slots=True)
class ExportOptions:
    node_id: str | None = option_field("node-id", help="The log of this node's agent.")
    server_id: str | None = option_field("server-id", help="The log of this server.")
    service_name: str | None = option_field(
        "service-name", help="The journal of this systemd unit, such as orchgit."
    )
    logs_since: str | None = option_field(
        "logs-since", type=length, help="From how long ago the journal is read, such as 72h."
    )
    follow: bool = option_field("follow", is_flag=True, help="Go on as it grows.")
    on_disk: bool = option_field("on-disk", is_flag=True, help="The log file of the agent.")


@monitor.command("export")
@options_of(ExportOptions)
@connected
def export(client: ApiClient, options: ExportOptions) -> None:
    """Print what a server or client has logged: its log file, or its journal."""
    if bool(options.service_name) == options.on_disk:
        raise click.UsageError("cannot tell what to print: give -service-name or -on-disk")
    if options.node_id and options.server_id:
        raise click.UsageError("cannot tell whose log: give -node-id or -server-id, not both")
    texts = client.stream_text(
        "/v1/agent/monitor/export",
        node_id=find_node(client, options.node_id)["ID"] if options.node_id else None,
        server_id=options.server_id,
        service_name=options.service_name,
        logs_since=options.logs_since,
        follow="true" if options.follow else None,
        on_disk="true" if options.on_disk else None,
    )
    _print(_decoded(texts))


def _print(texts: Iterator[str]) -> None:
    out = raw_stream(sys.stdout)
    for text in texts:
        out.write(text)
        out.flush()


def _decoded(texts: Iterator[str]) -> Iterator[str]:
    """Yields a log that comes in frames, or as it is."""
    first = next(texts, "")
    pieces = chain((first,), texts)
    if not _is_frame(first):
        yield from pieces
        return
    for data in file_data(pieces):
        yield data.decode("utf-8", "replace")


def _is_frame(text: str) -> bool:
    """Whether the text begins with a frame; log lines as JSON have no key Data."""
    try:
        found, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except ValueError:
        return False
    return isinstance(found, dict) and (not found or "Data" in found)
