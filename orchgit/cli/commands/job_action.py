"""`orchgit job action`: runs a command that a job has under a name, in a running task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError, quoted
from orchgit.cli.command import cli_command
from orchgit.cli.commands.alloc_exec import SessionOptions, run_session
from orchgit.cli.commands.alloc_find import find, find_or_of_job
from orchgit.cli.commands.job_find import find_job, of_job
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
    chosen = find(client, options.alloc) if options.alloc else None
    group, task = _place(of_job(client, job), name, options, chosen)
    found = chosen or find_or_of_job(client, job["ID"], True, group)
    asked = {
        "action": name,
        "allocID": found["ID"],
        "group": group,
        "task": task,
        "namespace": job["Namespace"],
    }
    path = f"/v1/job/{quoted(job['ID'])}/action"
    raise SystemExit(run_session(client, path, asked, options))


def _place(
    job: dict[str, Any], name: str, options: ActionOptions, chosen: dict[str, Any] | None
) -> tuple[str, str]:
    """Returns the group and the task that have the action. Raises ApiError where none has, or
    several have."""
    in_group = chosen["TaskGroup"] if chosen else options.group
    places = [
        (str(group["Name"]), str(task["Name"]))
        for group in job["TaskGroups"] or []
        for task in group["Tasks"] or []
        if in_group in (None, group["Name"])
        and options.task in (None, task["Name"])
        and any(each["Name"] == name for each in task.get("Actions") or [])
    ]
    if len(places) == 1:
        return places[0]
    if not places:
        raise ApiError(
            f"cannot find action {name!r} in job {job['ID']!r}; `orchgit job status {job['ID']}` "
            "lists the actions"
        )
    names = ", ".join(f"{group}/{task}" for group, task in places)
    raise ApiError(f"cannot tell which task's action {name!r}: {names}; give -group and -task")
