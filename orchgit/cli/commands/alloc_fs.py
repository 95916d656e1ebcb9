"""`orchgit alloc fs`: the files of an allocation."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from orchgit.cli.client.followed_files import FollowedFile, last_lines
from orchgit.cli.client.http_client import ApiClient
from orchgit.cli.client.log_frames import file_data
from orchgit.cli.client.patient_reads import FaultNotices, Patience
from orchgit.cli.command import cli_command
from orchgit.cli.commands.alloc_find import find_or_of_job
from orchgit.cli.completion import ALLOCATION, id_argument
from orchgit.cli.options import (
    connected,
    formatted,
    option_field,
    options_of,
    whole_ids_option,
)
from orchgit.cli.printing.output import amount, plain, table
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.cli.printing.terminal import raw_stream


@dataclass(frozen=True, slots=True)
class TailOptions:
    """Which part of a file or log to show, and whether to go on."""

    follow: bool = option_field("f", is_flag=True, help="Go on as it grows.")
    tail: bool = option_field("tail", is_flag=True, help="Only the end; see -n and -c.")
    lines: int | None = option_field("n", type=int, help="How many lines -tail shows [10].")
    size_bytes: int | None = option_field("c", type=int, help="How many bytes -tail shows.")

    @property
    def line_count(self) -> int | None:
        """How many of the last lines to show; None where they are not counted."""
        if self.size_bytes is not None:
            return None if self.size_bytes else 0
        if not self.tail:
            return None
        return 10 if self.lines is None else self.lines

    def params(self) -> dict[str, Any]:
        """Returns the query of a request, for all of the file or so many bytes of its end."""
        from_end = self.tail or self.size_bytes is not None
        return {
            "follow": "true" if self.follow else "false",
            "origin": "end" if from_end else "start",
            "offset": str(self.size_bytes or 0),
        }

    def read(self, read: Callable[[dict[str, Any]], bytes]) -> bytes:
        """Returns what is wanted without -f; `read` is given the query of a request."""
        query = self.params()
        if self.line_count is None:
            return read(query)
        return last_lines(lambda size: read({**query, "offset": str(size)}), self.line_count)


@dataclass(frozen=True, slots=True)
class FsOptions(TailOptions):
    stat: bool = option_field("stat", is_flag=True, help="Show what is known of the file itself.")
    machine: bool = option_field("H", is_flag=True, help="Sizes in bytes, for programs.")
    job: bool = option_field(
        "job", is_flag=True, help="IDENTIFIER is a job: take one of its allocations."
    )
    group: str | None = option_field("group", help="With -job: an allocation of this group.")


@cli_command("fs")
@id_argument("identifier", ALLOCATION)
@click.argument("path", default="/")
@options_of(FsOptions)
@whole_ids_option
@formatted
@connected
def fs(
    client: ApiClient,
    identifier: str,
    path: str,
    options: FsOptions,
    output: OutputFormat,
) -> None:
    """List a directory of an allocation, or print a file of it."""
    found = find_or_of_job(client, identifier, options.job, options.group)
    info = client.get(f"/v1/client/fs/stat/{found['ID']}", path=path)
    if options.stat:
        if not output.printed(info):
            _list([info], options.machine, with_type=True)
        return
    if info["IsDir"]:
        listing = client.get(f"/v1/client/fs/ls/{found['ID']}", path=path)
        if not output.printed(listing):
            _list(listing, options.machine)
        return
    raw = raw_stream(sys.stdout)
    raw.flush()
    out = raw.buffer
    if not (options.follow or options.tail or options.size_bytes is not None):
        for data in client.stream_bytes(f"/v1/client/fs/cat/{found['ID']}", path=path):
            out.write(data)
        out.flush()
        return
    streamed = f"/v1/client/fs/stream/{found['ID']}"
    if not options.follow:

        def read(query: dict[str, Any]) -> bytes:
            return b"".join(file_data(client.stream_text(streamed, path=path, **query)))

        out.write(options.read(read))
        out.flush()
        return
    query = {"path": path, **options.params()}
    patience = Patience(FaultNotices(f"the file {path!r}"))
    for data in FollowedFile(client, streamed, query, patience, options.line_count).data():
        out.write(data)
        out.flush()


def _list(found: list[dict[str, Any]], machine: bool, with_type: bool = False) -> None:
    content = ("Content Type",) if with_type else ()
    table(
        ("Mode", "Size", "Modified Time", *content, "Name"),
        (
            (
                plain(each["FileMode"]),
                each["Size"] if machine else amount(each["Size"]),
                each["ModTime"],
                *([plain(each.get("ContentType") or "-")] * with_type),
                plain(each["Name"] + ("/" if each["IsDir"] else "")),
            )
            for each in found
        ),
        empty="The directory is empty",
    )
