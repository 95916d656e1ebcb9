"""`orchgit alloc`: status, logs, fs, exec, stop, restart, signal."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_group
from orchgit.cli.commands.blame import fetch_blame
from orchgit.cli.options import (
    connected,
    formatted,
    option,
    option_field,
    options_of,
    verbose_option,
)
from orchgit.cli.printing.output import (
    ago,
    heading,
    pairs,
    plain,
    short,
    styled,
    table,
)
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.cli.printing.terminal import raw_stream


@cli_group("alloc")
def alloc() -> None:
    """Look into allocations: status, logs, files, exec, stop, restart."""


@alloc.command("status")
@click.argument("identifier", required=False)
@verbose_option
@formatted
@connected
def status(
    client: ApiClient,
    identifier: str | None,
    verbose: bool,
    output: OutputFormat,
) -> None:
    """One allocation with its tasks, ports and commit; or all of them."""
    if identifier:
        show_status(client, identifier, verbose, output)
        return
    found = client.get("/v1/allocations")
    if not output.printed(found):
        show_table(found, verbose)


@dataclass(frozen=True, slots=True)
class LogOptions:
    task: str | None = option_field("task", help="The task whose log to show.")
    stderr: bool = option_field(
        "stderr", is_flag=True, help="Standard error instead of standard output."
    )
    follow: bool = option_field("f", is_flag=True, help="Go on as the log grows.")
    tail: bool = option_field("tail", is_flag=True, help="Only the last lines (-n).")
    lines: int = option_field("n", type=int, default=10, help="How many lines -tail shows.")
    job: bool = option_field(
        "job", is_flag=True, help="IDENTIFIER is a job: take one of its running allocations."
    )


@alloc.command("logs")
@click.argument("identifier")
@click.argument("task_name", metavar="[TASK]", required=False)
@options_of(LogOptions)
@connected
def logs(client: ApiClient, identifier: str, task_name: str | None, options: LogOptions) -> None:
    """What a task wrote."""
    found = _newest_of_job(client, identifier) if options.job else _find(client, identifier)
    follow_text = client.stream_text(
        f"/v1/client/fs/logs/{found['ID']}",
        task=task_name or options.task or only_task(client, found),
        type="stderr" if options.stderr else "stdout",
        plain="true",
        follow="true" if options.follow else None,
        origin="end" if options.tail else "start",
        offset=options.lines * 200 if options.tail else None,
    )
    out = raw_stream(sys.stdout)
    if options.tail and not options.follow:
        out.writelines("".join(follow_text).splitlines(keepends=True)[-options.lines :])
        return
    for text in follow_text:
        out.write(text)
        out.flush()


@alloc.command("fs")
@click.argument("identifier")
@click.argument("path", default="/")
@formatted
@connected
def fs(client: ApiClient, identifier: str, path: str, output: OutputFormat) -> None:
    """List a directory of an allocation, or print a file of it."""
    found = _find(client, identifier)
    info = client.get(f"/v1/client/fs/stat/{found['ID']}", path=path)
    if not info["IsDir"]:
        for text in client.stream_text(f"/v1/client/fs/cat/{found['ID']}", path=path):
            raw_stream(sys.stdout).write(text)
        return
    listing = client.get(f"/v1/client/fs/ls/{found['ID']}", path=path)
    if output.printed(listing):
        return
    table(
        ("Mode", "Size", "Modified Time", "Name"),
        (
            (
                plain(each["FileMode"]),
                each["Size"],
                each["ModTime"],
                plain(each["Name"] + ("/" if each["IsDir"] else "")),
            )
            for each in listing
        ),
    )


@alloc.command("stop")
@click.argument("identifier")
@connected
def stop(client: ApiClient, identifier: str) -> None:
    """Stop an allocation; the scheduler replaces it."""
    found = _find(client, identifier)
    answer = client.put(f"/v1/allocation/{found['ID']}/stop")
    click.echo(f"Allocation {short(found['ID'])} is being stopped.")
    click.echo(f"Evaluation: {short(answer['EvalID'])}")


@alloc.command("restart")
@click.argument("identifier")
@click.argument("task", required=False)
@connected
def restart(client: ApiClient, identifier: str, task: str | None) -> None:
    """Restart the tasks of an allocation where they are."""
    found = _find(client, identifier)
    client.put(f"/v1/client/allocation/{found['ID']}/restart", {"TaskName": task or ""})
    click.echo(f"Allocation {short(found['ID'])} is restarting.")


@alloc.command("signal")
@click.argument("identifier")
@click.argument("task", required=False)
@option("s", dest="name", default="SIGKILL", help="The signal to send.")
@connected
def signal(client: ApiClient, identifier: str, task: str | None, name: str) -> None:
    """Send a signal to the tasks of an allocation."""
    found = _find(client, identifier)
    client.put(f"/v1/client/allocation/{found['ID']}/signal", {"Task": task or "", "Signal": name})
    click.echo(f"{name} was sent to allocation {short(found['ID'])}.")


@alloc.command("checks")
@click.argument("identifier")
@formatted
@connected
def checks(client: ApiClient, identifier: str, output: OutputFormat) -> None:
    """The health checks of an allocation's services."""
    found = _find(client, identifier)
    data = client.get(f"/v1/client/allocation/{found['ID']}/checks")
    if output.printed(data):
        return
    table(
        ("Service", "Check", "Mode", "Status", "Output"),
        (
            (
                plain(each["Service"]),
                plain(each["Check"]),
                each["Mode"],
                styled(each["Status"]),
                plain(each["Output"].strip()),
            )
            for each in data.values()
        ),
        empty="This allocation has no checks",
    )


def _find(client: ApiClient, identifier: str) -> dict[str, Any]:
    return client.find("alloc", "/v1/allocations", identifier, namespace=client.namespace or "*")


def _newest_of_job(client: ApiClient, job_id: str) -> dict[str, Any]:
    found = client.get(f"/v1/job/{job_id}/allocations")
    running = [each for each in found if each["ClientStatus"] == "running"] or found
    if not running:
        raise ApiError(f"cannot show logs: job {job_id!r} has no allocations")
    newest: dict[str, Any] = max(running, key=lambda each: each["CreateIndex"])
    return newest


def only_task(client: ApiClient, found: dict[str, Any]) -> str:
    """Returns the task of a one-task allocation; with several, the error names them."""
    names = sorted(found.get("TaskStates") or {})
    if not names:
        data = client.get(f"/v1/allocation/{found['ID']}")
        groups = (data.get("Job") or {}).get("TaskGroups") or []
        names = [
            task["Name"]
            for group in groups
            if group["Name"] == found["TaskGroup"]
            for task in group["Tasks"]
        ]
    if len(names) != 1:
        raise ApiError(f"cannot tell which task: name one of {', '.join(names)}")
    return str(names[0])


def show_table(allocations: list[dict[str, Any]], verbose: bool) -> None:
    table(
        ("ID", "Node ID", "Task Group", "Version", "Desired", "Status", "Created", "Commit"),
        (
            (
                short(each["ID"], verbose),
                short(each["NodeID"], verbose),
                plain(each["TaskGroup"]),
                each["JobVersion"],
                each["DesiredStatus"],
                styled(each["ClientStatus"]),
                ago(each["CreateTime"]),
                short(each.get("CommitID") or "-", verbose),
            )
            for each in allocations
        ),
        empty="No allocations placed",
    )


def show_status(client: ApiClient, identifier: str, verbose: bool, output: OutputFormat) -> None:
    data = client.get(f"/v1/allocation/{_find(client, identifier)['ID']}")
    if output.printed(data):
        return
    origin = fetch_blame(client, data["ID"]) if data.get("CommitID") else {}
    health = (data.get("DeploymentStatus") or {}).get("Healthy")
    pairs(
        (
            ("ID", short(data["ID"], verbose)),
            ("Name", plain(data["Name"])),
            ("Node", f"{short(data['NodeID'], verbose)} ({plain(data['NodeName'])})"),
            ("Job ID", plain(data["JobID"])),
            ("Job Version", data.get("JobVersion", (data.get("Job") or {}).get("Version"))),
            ("Client Status", styled(data["ClientStatus"])),
            ("Client Description", plain(data.get("ClientDescription") or "")),
            ("Desired Status", data["DesiredStatus"]),
            ("Created", ago(data["CreateTime"])),
            ("Deployment ID", short(data.get("DeploymentID") or "", verbose)),
            ("Deployment Health", {True: "healthy", False: "unhealthy", None: ""}[health]),
            ("Commit", _commit_line(origin, verbose)),
        )
    )
    _show_ports(data)
    for task, state in sorted((data.get("TaskStates") or {}).items()):
        _show_task(task, state)


def _commit_line(origin: dict[str, Any], verbose: bool) -> str:
    if not origin:
        return ""
    where = f"{origin['File']}:{origin['Line']}" if origin.get("File") else ""
    return plain(
        f"{short(origin['CommitID'], verbose)} {origin['Subject']} ({origin['Author']}) {where}"
    )


def _show_ports(data: dict[str, Any]) -> None:
    ports = ((data.get("AllocatedResources") or {}).get("Shared") or {}).get("Ports") or []
    if ports:
        heading("Allocation Addresses")
        table(
            ("Label", "Address"),
            ((plain(port["Label"]), f"{port['HostIP']}:{port['Value']}") for port in ports),
        )


def _show_task(name: str, state: dict[str, Any]) -> None:
    heading(f'Task "{name}" is "{state["State"]}"')
    table(
        ("Time", "Type", "Description"),
        (
            (ago(event["Time"]), plain(event["Type"]), plain(event["DisplayMessage"]))
            for event in reversed((state.get("Events") or [])[-10:])
        ),
    )
