"""`orchgit job restart`: restarts a job's allocations, some at a time."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.client.patient_reads import PatientReads
from orchgit.cli.command import cli_command
from orchgit.cli.commands.job_find import find_job, of_job
from orchgit.cli.completion import JOB, id_argument
from orchgit.cli.options import connected, option_field, options_of
from orchgit.cli.printing.output import console, plain, short
from orchgit.durations import parse_length_ns
from orchgit.errors import InvalidInputError
from orchgit.whole_number import whole_number

_ASK, _FAIL = "ask", "fail"
_POLL_WAIT = "30s"


@dataclass(frozen=True, slots=True)
class RestartOptions:
    all_tasks: bool = option_field("all-tasks", is_flag=True, help="Also tasks that have ended.")
    batch_size: str = option_field(
        "batch-size", default="1", help="How many at a time: a number, or a share such as 25%."
    )
    batch_wait: str = option_field(
        "batch-wait", default="0s", help="Between two batches: a length of time, or 'ask'."
    )
    group: tuple[str, ...] = option_field(
        "group", multiple=True, help="Only this group; may be repeated."
    )
    no_shutdown_delay: bool = option_field(
        "no-shutdown-delay", is_flag=True, help="With -reschedule: without shutdown delays."
    )
    on_error: str = option_field(
        "on-error", default=_ASK, help="When a restart fails: 'ask' at the terminal, or 'fail'."
    )
    reschedule: bool = option_field(
        "reschedule", is_flag=True, help="Stop allocations; the scheduler replaces them."
    )
    task: tuple[str, ...] = option_field(
        "task", multiple=True, help="Only this task; may be repeated."
    )
    yes: bool = option_field("yes", is_flag=True, help="Do not ask for confirmation.")
    verbose: bool = option_field("verbose", is_flag=True, help="Show whole ids.")

    def check(self) -> None:
        """Raises UsageError for what cannot be done together."""
        if self.on_error not in (_ASK, _FAIL):
            raise click.UsageError(f"cannot use -on-error {self.on_error!r}: write ask or fail")
        if not sys.stdin.isatty():
            if self.on_error == _ASK and not self.yes:
                raise click.UsageError(
                    "cannot ask: standard input is no terminal; give -on-error=fail"
                )
            if self.batch_wait == _ASK:
                raise click.UsageError(
                    "cannot ask: standard input is no terminal; give -batch-wait a length of time"
                )
        if self.reschedule and (self.task or self.all_tasks):
            raise click.UsageError(
                "cannot reschedule tasks: an allocation goes as a whole; leave out -task"
            )
        if self.task and self.all_tasks:
            raise click.UsageError("cannot restart one task and all: leave one out")

    def size(self, count: int) -> int:
        """How many of `count` allocations are one batch; raises UsageError."""
        text = self.batch_size
        share = whole_number(text.removesuffix("%"))
        if not share or share < 1:
            raise click.UsageError(
                f"cannot use -batch-size {text!r}: write a number, or a share such as 25%"
            )
        return max(1, count * min(share, 100) // 100) if text.endswith("%") else share


@cli_command("restart")
@id_argument("identifier", JOB)
@options_of(RestartOptions)
@connected
def restart(client: ApiClient, identifier: str, options: RestartOptions) -> None:
    """Restart the running allocations of a job where they are, or with -reschedule elsewhere."""
    options.check()
    found = find_job(client, identifier)
    if not options.yes and sys.stdin.isatty():
        click.confirm(f"Restart the allocations of job {found['ID']!r}?", abort=True)
    chosen = [
        each
        for each in of_job(client, found, "allocations")
        if each["ClientStatus"] == "running"
        and each["DesiredStatus"] == "run"
        and (not options.group or each["TaskGroup"] in options.group)
    ]
    if not chosen:
        click.echo("No allocations to restart")
        return
    size = options.size(len(chosen))
    for start in range(0, len(chosen), size):
        batch = chosen[start : start + size]
        last = start + len(batch)
        click.echo(f"==> Restarting {start + 1} to {last} of {len(chosen)} allocations ...")
        for each in batch:
            _restart_one(client, found, each, options)
        if last < len(chosen) and not _goes_on(options):
            raise SystemExit(1)
    click.echo("==> All allocations are restarted.")


def _goes_on(options: RestartOptions) -> bool:
    """Waits between two batches; returns whether to go on."""
    if options.batch_wait == _ASK:
        return click.confirm("Go on with the next batch?")
    try:
        time.sleep(parse_length_ns(options.batch_wait) / 1e9)
    except InvalidInputError as error:
        raise click.UsageError(f"cannot use -batch-wait: {error}") from error
    return True


def _restart_one(
    client: ApiClient, job: dict[str, Any], each: dict[str, Any], options: RestartOptions
) -> None:
    shown = short(each["ID"], options.verbose)
    console().print(f"    Allocation {shown} of group {plain(each['TaskGroup'])}")
    try:
        if options.reschedule:
            _replace(client, job, each, options)
            return
        for task in options.task or ("",):
            client.put(
                f"/v1/client/allocation/{each['ID']}/restart",
                {"TaskName": task, "AllTasks": options.all_tasks},
                namespace=each["Namespace"],
            )
    except ApiError as error:
        if options.on_error == _FAIL or not sys.stdin.isatty():
            raise
        click.echo(f"    {error}", err=True)
        click.confirm("Go on all the same?", abort=True)


def _replace(
    client: ApiClient, job: dict[str, Any], each: dict[str, Any], options: RestartOptions
) -> None:
    """Stops an allocation, and waits until another one runs in its place."""
    client.put(
        f"/v1/allocation/{each['ID']}/stop",
        namespace=each["Namespace"],
        no_shutdown_delay="true" if options.no_shutdown_delay else None,
    )
    index, reads = 0, PatientReads(client, f"allocation {short(each['ID'])}")
    while True:
        index, stopped = reads.blocking_get(f"/v1/allocation/{each['ID']}", index, wait=_POLL_WAIT)
        if stopped.get("NextAllocation"):
            break
    index, path = 0, f"/v1/allocation/{stopped['NextAllocation']}"
    while True:
        index, new = reads.blocking_get(path, index, wait=_POLL_WAIT)
        if new["ClientStatus"] != "pending":
            break
    if new["ClientStatus"] != "running":
        raise ApiError(
            f"cannot go on: allocation {short(new['ID'])} of job {job['ID']!r}, in the place of "
            f"{short(each['ID'])}, is {new['ClientStatus']}"
        )
