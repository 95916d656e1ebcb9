"""`orchgit alloc logs`: what the tasks of one allocation wrote."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from typing import Any, BinaryIO

import click

from orchgit.cli.client.followed_files import FollowedLog
from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.client.patient_reads import FaultNotices, Patience
from orchgit.cli.command import cli_command
from orchgit.cli.commands.alloc_find import find_or_of_job, task_of
from orchgit.cli.commands.alloc_fs import TailOptions
from orchgit.cli.completion import ALLOCATION, id_argument
from orchgit.cli.options import connected, option_field, options_of, whole_ids_option
from orchgit.cli.printing.terminal import raw_stream

_PATH = "/v1/client/fs/logs/{}"


@dataclass(frozen=True, slots=True)
class LogOptions(TailOptions):
    task: str | None = option_field("task", help="The task whose log to show.")
    stdout: bool = option_field("stdout", is_flag=True, help="Standard output (the default).")
    stderr: bool = option_field("stderr", is_flag=True, help="Standard error; or both.")
    job: bool = option_field(
        "job", is_flag=True, help="IDENTIFIER is a job: take one of its allocations."
    )
    group: str | None = option_field("group", help="With -job: an allocation of this group.")

    @property
    def kinds(self) -> tuple[str, ...]:
        both = (("stdout", self.stdout), ("stderr", self.stderr))
        return tuple(kind for kind, wanted in both if wanted) or ("stdout",)


@cli_command("logs")
@id_argument("identifier", ALLOCATION)
@click.argument("task_name", metavar="[TASK]", required=False)
@options_of(LogOptions)
@whole_ids_option
@connected
def logs(client: ApiClient, identifier: str, task_name: str | None, options: LogOptions) -> None:
    """What a task wrote. `orchgit logs JOB` shows all allocations of a job."""
    found = find_or_of_job(client, identifier, options.job, options.group)
    task = task_of(client, found, task_name or options.task)
    kinds = options.kinds
    if not options.follow:
        for kind in kinds:
            _copy(client, found["ID"], task, kind, options)
        return
    notices = FaultNotices(f"the logs of task {task!r}")
    failures: list[Exception] = []

    def copy(kind: str) -> None:
        try:
            _follow(client, found["ID"], task, kind, options, notices)
        except (ApiError, OSError) as error:
            failures.append(error)

    others = [
        threading.Thread(target=copy, args=(kind,), daemon=True, name=f"log {kind}")
        for kind in kinds[1:]
    ]
    for each in others:
        each.start()
    copy(kinds[0])
    for each in others:
        each.join()
    if failures:
        raise failures[0]


def _copy(client: ApiClient, alloc_id: str, task: str, kind: str, options: LogOptions) -> None:
    """Writes one of the task's two logs to the stream of the same name."""
    out = _bytes_of(kind)

    def read(query: dict[str, Any]) -> bytes:
        whole = {"task": task, "type": kind, "plain": "true", **query}
        return b"".join(client.stream_bytes(_PATH.format(alloc_id), **whole))

    out.write(options.read(read))
    out.flush()


def _follow(
    client: ApiClient,
    alloc_id: str,
    task: str,
    kind: str,
    options: LogOptions,
    notices: FaultNotices,
) -> None:
    """Writes one of the task's two logs as `_copy`, and what comes, until the task is gone."""
    out = _bytes_of(kind)
    query = {"task": task, "type": kind, **options.params()}
    patience = Patience(notices)
    log = FollowedLog(client, _PATH.format(alloc_id), query, patience, options.line_count)
    for data in log.data():
        out.write(data)
        out.flush()


def _bytes_of(kind: str) -> BinaryIO:
    raw = raw_stream(sys.stdout if kind == "stdout" else sys.stderr)
    raw.flush()
    return raw.buffer
