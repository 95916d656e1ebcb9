"""`orchgit logs JOB`: what all tasks of a job write, each line with where it comes from."""

from __future__ import annotations

import codecs
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from queue import Queue
from typing import Any

import click

from orchgit.cli.client.followed_files import FollowedLog, last_lines
from orchgit.cli.client.http_client import ApiClient, ApiError, quoted
from orchgit.cli.client.patient_reads import FaultNotices, Patience, PatientReads
from orchgit.cli.command import cli_command
from orchgit.cli.completion import JOB, id_argument
from orchgit.cli.options import connected, option_field, options_of
from orchgit.cli.printing.output import console, plain, short
from orchgit.printable import printable

_KINDS = ("stdout", "stderr")
_STYLES = ("cyan", "green", "magenta", "yellow")
_MAX_STREAMS = 200
"""So many logs are followed at the same time, each over a connection of its own."""
_TOO_MANY = (
    f"==> Only {_MAX_STREAMS} logs are followed: choose by -group, -task, -stdout or -stderr."
)
_MAX_UNPRINTED = 1000
"""So many lines may wait to be printed before the logs are read more slowly."""


@dataclass(frozen=True, slots=True)
class JobLogOptions:
    follow: bool = option_field(
        "f", is_flag=True, help="Go on as the logs grow, and with new allocations."
    )
    lines: int | None = option_field("n", type=int, help="Begin with so many lines of each log.")
    tail: bool = option_field("tail", is_flag=True, help="The same as -n 10.")
    stdout: bool = option_field("stdout", is_flag=True, help="Only standard output.")
    stderr: bool = option_field("stderr", is_flag=True, help="Only standard error.")
    task: str | None = option_field("task", help="Only this task.")
    group: str | None = option_field("group", help="Only this group.")

    @property
    def kinds(self) -> tuple[str, ...]:
        given = zip(_KINDS, (self.stdout, self.stderr), strict=True)
        return tuple(kind for kind, chosen in given if chosen) or _KINDS

    @property
    def line_count(self) -> int | None:
        return 10 if self.lines is None and self.tail else self.lines


@dataclass(frozen=True, slots=True)
class _Log:
    """One of the two logs of a task."""

    alloc_id: str
    task: str
    kind: str

    @property
    def prefix(self) -> str:
        return f"{short(self.alloc_id)} {self.task}"

    @property
    def path(self) -> str:
        return f"/v1/client/fs/logs/{self.alloc_id}"

    @property
    def query(self) -> dict[str, str]:
        return {"task": self.task, "type": self.kind}


@cli_command("logs")
@id_argument("identifier", JOB)
@options_of(JobLogOptions)
@connected
def logs(client: ApiClient, identifier: str, options: JobLogOptions) -> None:
    """What the tasks of a job write: all its allocations, both streams, each line prefixed.

    IDENTIFIER may be an allocation too. What allocations that ended wrote is shown where none
    runs. Standard error goes to standard error.
    """
    path, params = listing_of(client, identifier)
    printer = _Printer()
    if not options.follow:
        found = client.get(path, **params)
        for log in _logs(found if isinstance(found, list) else [found], options):
            printer.print_all(client, log, options.line_count)
        return
    notices = FaultNotices(f"the logs of {identifier}")
    followed = _Followed(client, options, notices)
    reads = PatientReads(client, notices.following, notices=notices)
    followed.start(partial(followed.find, reads, path, params))
    for log, line in followed.lines():
        printer.print(log, line)


def listing_of(client: ApiClient, identifier: str) -> tuple[str, dict[str, Any]]:
    """Returns the path of the job's allocations, or of one allocation, and the query."""
    try:
        job = client.find("job", "/v1/jobs", identifier, per_page=20)
    except ApiError as error:
        if error.status != 404:
            raise
        found = (
            client.get("/v1/allocations", prefix=identifier, namespace="*")
            if set(identifier) <= set("0123456789abcdef-")
            else []
        )
        if len(found) != 1:
            raise error from None
        return f"/v1/allocation/{found[0]['ID']}", {"namespace": found[0]["Namespace"]}
    return f"/v1/job/{quoted(job['ID'])}/allocations", {"namespace": job["Namespace"]}


def _logs(found: list[dict[str, Any]], options: JobLogOptions) -> Iterator[_Log]:
    """Yields the logs that have begun: of what runs, or else of what ended last."""
    of_group = [each for each in found if options.group in (None, each["TaskGroup"])]
    running = [each for each in of_group if each["ClientStatus"] == "running"]
    newest = sorted(of_group, key=lambda each: -int(each["CreateIndex"]))[:1]
    for each in running or newest:
        for task, state in sorted((each.get("TaskStates") or {}).items()):
            has_begun = state["State"] != "pending" and state.get("StartedAt")
            if has_begun and options.task in (None, task):
                for kind in options.kinds:
                    yield _Log(each["ID"], task, kind)


def _lines(pieces: Iterator[bytes]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    for data in pieces:
        *lines, rest = (rest + decoder.decode(data)).split("\n")
        yield from lines
    if rest:
        yield rest


class _Followed:
    """Follows the logs of allocations, those too that begin later, each in a thread of its own."""

    def __init__(self, client: ApiClient, options: JobLogOptions, notices: FaultNotices) -> None:
        self._client = client
        self._options = options
        self._notices = notices
        self._came: Queue[tuple[_Log, str | ApiError] | Exception] = Queue(_MAX_UNPRINTED)

    def start(self, follow: Callable[[], None]) -> None:
        """Runs `follow` in a thread; what it raises ends the command."""

        def run() -> None:
            try:
                follow()
            except Exception as error:  # noqa: BLE001 -- `lines` raises it
                self._came.put(error)

        threading.Thread(target=run, daemon=True, name="logs").start()

    def lines(self) -> Iterator[tuple[_Log, str]]:
        """Yields the lines as they come. The logs that cannot be followed are told on standard
        error."""
        while True:
            found = self._came.get()
            if isinstance(found, Exception):
                raise found
            log, line = found
            if isinstance(line, str):
                yield log, line
            else:
                click.echo(f"{log.prefix}: {line}", err=True)

    def find(self, reads: PatientReads, path: str, params: dict[str, Any]) -> None:
        """Follows the logs of the allocations that the path lists, until the command ends."""
        index, seen, told = 0, set[_Log](), False
        while True:
            # What begins while this command looks on is shown from its first line.
            lines = None if index else self._options.line_count
            index, found = reads.blocking_get(path, index, **params)
            listed = found if isinstance(found, list) else [found]
            for log in _logs(listed, self._options):
                if log in seen:
                    continue
                if len(seen) < _MAX_STREAMS:
                    seen.add(log)
                    self.start(partial(self._follow, log, lines))
                elif not told:
                    told = True
                    click.echo(_TOO_MANY, err=True)

    def _follow(self, log: _Log, lines: int | None) -> None:
        """Takes what is there, and what comes, until the task is gone."""
        origin = "start" if lines is None else "end"
        query = {**log.query, "follow": "true", "origin": origin, "offset": "0"}
        followed = FollowedLog(self._client, log.path, query, Patience(self._notices), lines)
        try:
            for line in _lines(followed.data()):
                self._came.put((log, line))
        except ApiError as error:
            self._came.put((log, error))


@dataclass
class _Printer:
    """Prints lines of several logs, each behind where it comes from."""

    styles: dict[str, str] = field(default_factory=dict)
    out: dict[str, Any] = field(
        default_factory=lambda: {"stdout": console(), "stderr": console(stderr=True)}
    )

    def print_all(self, client: ApiClient, log: _Log, lines: int | None) -> None:
        """Prints what is there, or the last `lines` of it."""

        def read(origin: str, offset: int) -> bytes:
            query: dict[str, Any] = {**log.query, "plain": "true", "follow": "false"}
            pieces = client.stream_bytes(log.path, **query, origin=origin, offset=str(offset))
            return b"".join(pieces)

        data = read("start", 0) if lines is None else last_lines(partial(read, "end"), lines)
        for line in _lines(iter((data,))):
            self.print(log, line)

    def print(self, log: _Log, line: str) -> None:
        style = self.styles.setdefault(log.alloc_id, _STYLES[len(self.styles) % len(_STYLES)])
        stream = sys.stdout if log.kind == "stdout" else sys.stderr
        prefix = f"[{style}]{plain(printable(log.prefix))}[/{style}]"
        self.out[log.kind].print(f"{prefix} | {plain(line)}")
        stream.flush()
