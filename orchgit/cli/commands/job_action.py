"""`orchgit job action`: runs a command that a job has under a name, in a running task."""

from __future__ import annotations

from dataclasses import dataclass

import click

from orchgit.cli.client.http_client import ApiClient, quoted
from orchgit.cli.command import cli_command
from orchgit.cli.commands.alloc_exec import SessionOptions, run_session
from orchgit.cli.commands.alloc_find import find, find_or_of_job
from orchgit.cli.commands.job_find import find_job
from orchgit.cli.options import connected, option_field, options_of


@dataclass(frozen=True, slots=True)
class ActionOptions(SessionOptions):
    job: str | None = option_field("job", help="The job that has the action.")
    alloc: str | None = option_field("alloc", help="The allocation to run it in.")
    group: str | None = option_field("group", help="An allocation of this group.")
    task: str | None = option_field("task", help="The task that has the action.")


@cli_command("action")
@click.argument("name")
@options_of(ActionOptions)
@connected
def action(client: ApiClient, name: str, options: ActionOptions) -> None:
    """Run the action NAME of a job; its exit code is this command's.

    `orchgit job status JOB` lists the actions of a job.
    """
    if not options.job:
        raise click.UsageError("cannot run an action of no job: give -job")
    job = find_job(client, options.job)
    if options.alloc:
        found = find(client, options.alloc)
    else:
        found = find_or_of_job(client, job["ID"], True, options.group)
    asked = {
        "action": name,
        "allocID": found["ID"],
        "group": found["TaskGroup"],
        "task": options.task or "",
        "namespace": job["Namespace"],
    }
    path = f"/v1/job/{quoted(job['ID'])}/action"
    raise SystemExit(run_session(client, path, asked, options))
