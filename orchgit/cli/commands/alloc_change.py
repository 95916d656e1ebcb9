"""`orchgit alloc stop`, `restart`, `signal` and `pause`."""

from __future__ import annotations

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_command
from orchgit.cli.commands.alloc_find import find
from orchgit.cli.completion import ALLOCATION, id_argument
from orchgit.cli.options import connected, detach_option, option, verbose_option
from orchgit.cli.printing.monitor import monitor_evaluation
from orchgit.cli.printing.output import short

_task_option = option("task", dest="named", help="Only this task.")


@cli_command("stop")
@id_argument("identifier", ALLOCATION)
@option("no-shutdown-delay", is_flag=True, help="Stop at once, without the job's shutdown delays.")
@detach_option
@verbose_option
@connected
def stop(
    client: ApiClient, identifier: str, no_shutdown_delay: bool, detach: bool, verbose: bool
) -> None:
    """Stop an allocation; the scheduler replaces it."""
    found = find(client, identifier)
    answer = client.put(
        f"/v1/allocation/{found['ID']}/stop",
        namespace=found["Namespace"],
        no_shutdown_delay="true" if no_shutdown_delay else None,
    )
    click.echo(f"Allocation {short(found['ID'], verbose)} is being stopped.")
    if detach:
        click.echo(f"Evaluation: {short(answer['EvalID'], verbose)}")
        return
    code = monitor_evaluation(client, answer["EvalID"], found["Namespace"], with_deployment=False)
    raise SystemExit(code)


@cli_command("restart")
@id_argument("identifier", ALLOCATION)
@click.argument("task", required=False)
@_task_option
@option("all-tasks", is_flag=True, help="Also tasks that have ended.")
@verbose_option
@connected
def restart(
    client: ApiClient,
    identifier: str,
    task: str | None,
    named: str | None,
    all_tasks: bool,
    verbose: bool,
) -> None:
    """Restart the tasks of an allocation where they are."""
    only = _one_task(task, named)
    if only and all_tasks:
        raise click.UsageError("cannot restart task and all tasks: give a task or -all-tasks")
    found = find(client, identifier)
    body = {"TaskName": only, "AllTasks": all_tasks}
    client.put(f"/v1/client/allocation/{found['ID']}/restart", body, namespace=found["Namespace"])
    click.echo(f"Allocation {short(found['ID'], verbose)} is restarting.")


@cli_command("signal")
@id_argument("identifier", ALLOCATION)
@click.argument("task", required=False)
@_task_option
@option("s", dest="name", default="SIGKILL", help="The signal to send.")
@verbose_option
@connected
def signal(
    client: ApiClient,
    identifier: str,
    task: str | None,
    named: str | None,
    name: str,
    verbose: bool,
) -> None:
    """Send a signal to the tasks of an allocation."""
    found = find(client, identifier)
    body = {"Task": _one_task(task, named), "Signal": name}
    client.put(f"/v1/client/allocation/{found['ID']}/signal", body, namespace=found["Namespace"])
    click.echo(f"{name} was sent to allocation {short(found['ID'], verbose)}.")


@cli_command("pause")
@id_argument("identifier", ALLOCATION)
@click.argument("task", required=False)
@_task_option
@option("state", default="pause", help="pause, run or scheduled.")
@option("status", is_flag=True, help="Only show whether it is paused.")
@verbose_option
@connected
def pause(
    client: ApiClient,
    identifier: str,
    task: str | None,
    named: str | None,
    state: str,
    status: bool,
    verbose: bool,
) -> None:
    """Pause a task, or let it go on. Servers refuse it: schedules belong to Nomad Enterprise."""
    found = find(client, identifier)
    path = f"/v1/client/allocation/{found['ID']}/pause"
    only = _one_task(task, named)
    if status:
        click.echo(client.get_text(path, task=only, namespace=found["Namespace"]))
        return
    body = {"Task": only, "ScheduleState": state}
    client.put(path, body, namespace=found["Namespace"])
    click.echo(f"Allocation {short(found['ID'], verbose)}: {state}.")


def _one_task(argument: str | None, option_value: str | None) -> str:
    if argument and option_value and argument != option_value:
        raise ApiError(
            f"cannot tell which task: the argument names {argument!r}, -task {option_value!r}"
        )
    return argument or option_value or ""
