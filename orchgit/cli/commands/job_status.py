"""`orchgit job status`, `allocs` and `deployments`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_command
from orchgit.cli.commands.alloc_status import show_table as show_allocations
from orchgit.cli.commands.deployment import show_table as show_deployments
from orchgit.cli.commands.eval import show_table as show_evaluations
from orchgit.cli.commands.job_find import find_job, of_job
from orchgit.cli.completion import JOB, id_argument
from orchgit.cli.options import (
    connected,
    formatted,
    option,
    option_field,
    options_of,
    ui_option,
    verbose_option,
)
from orchgit.cli.printing.deployment_groups import show_groups
from orchgit.cli.printing.output import (
    ago,
    duration,
    heading,
    moment,
    pairs,
    plain,
    short,
    styled,
    table,
)
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.cli.printing.placement_failures import show_failures

_COUNTS = ("Queued", "Starting", "Running", "Failed", "Complete", "Lost", "Unknown")


@dataclass(frozen=True, slots=True)
class JobStatusOptions:
    short: bool = option_field("short", is_flag=True, help="Only the job itself.")
    evals: bool = option_field("evals", is_flag=True, help="Its evaluations too.")
    all_allocs: bool = option_field(
        "all-allocs", is_flag=True, help="Also allocations of an earlier job of this id."
    )
    verbose: bool = option_field(
        "verbose", is_flag=True, help="Show whole ids, evaluations and more columns."
    )


@cli_command("status")
@id_argument("identifier", JOB, required=False)
@options_of(JobStatusOptions)
@ui_option
@formatted
@connected
def status(
    client: ApiClient, identifier: str | None, options: JobStatusOptions, output: OutputFormat
) -> None:
    """One job with its summary, deployment, allocations and commit; or all jobs."""
    if identifier:
        show_status(client, identifier, output, options)
    else:
        show_list(client, output)


@cli_command("allocs")
@id_argument("identifier", JOB)
@option("all", dest="every", is_flag=True, help="Also those of an earlier job of this id.")
@verbose_option
@formatted
@connected
def allocs(
    client: ApiClient, identifier: str, every: bool, verbose: bool, output: OutputFormat
) -> None:
    """The allocations of a job."""
    params = {"all": "true"} if every else {}
    data = of_job(client, find_job(client, identifier), "allocations", **params)
    if not output.printed(data):
        show_allocations(data, verbose)


@cli_command("deployments")
@id_argument("identifier", JOB)
@option("latest", is_flag=True, help="Only the newest, group by group.")
@option("all", dest="every", is_flag=True, help="Also those of an earlier job of this id.")
@verbose_option
@formatted
@connected
def deployments(
    client: ApiClient,
    identifier: str,
    latest: bool,
    every: bool,
    verbose: bool,
    output: OutputFormat,
) -> None:
    """The deployments of a job."""
    found = find_job(client, identifier)
    if latest:
        data = of_job(client, found, "deployment")
        if output.printed(data):
            return
        if not data:
            click.echo("No deployments found")
            return
        pairs(
            (
                ("ID", short(data["ID"], verbose)),
                ("Job ID", plain(data["JobID"])),
                ("Job Version", str(data["JobVersion"])),
                ("Status", styled(data["Status"])),
                ("Description", plain(data["StatusDescription"])),
            )
        )
        show_groups(data)
        return
    data = of_job(client, found, "deployments", **({"all": "true"} if every else {}))
    if not output.printed(data):
        show_deployments(data, verbose)


def origin_line(origin: dict[str, Any], verbose: bool) -> str:
    if not origin.get("CommitID"):
        return ""
    where = f" {origin['File']}:{origin['Line']}" if origin.get("File") else ""
    return f"{short(origin['CommitID'], verbose)} {origin['Subject']} ({origin['Author']}){where}"


def show_list(client: ApiClient, output: OutputFormat) -> None:
    found = client.get("/v1/jobs")
    if not output.printed(found):
        show_jobs(found)


def show_jobs(found: list[dict[str, Any]]) -> None:
    """Prints one line for each job."""
    table(
        ("ID", "Type", "Priority", "Status", "Submit Date"),
        (
            (
                plain(each["ID"]),
                each["Type"]
                + ("/periodic" if each["Periodic"] else "")
                + ("/parameterized" if each.get("ParameterizedJob") else ""),
                each["Priority"],
                styled("dead (stopped)" if each["Stop"] else each["Status"]),
                ago(each["SubmitTime"]),
            )
            for each in found
        ),
        empty="No running jobs",
    )


def show_status(
    client: ApiClient, identifier: str, output: OutputFormat, options: JobStatusOptions
) -> None:
    """Prints one job."""
    found = find_job(client, identifier)
    data = of_job(client, found)
    if output.printed(data):
        return
    periodic, parameterized = data["Periodic"], data.get("ParameterizedJob")
    launches = periodic is not None or (parameterized is not None and not data.get("Dispatched"))
    pairs(
        (
            ("ID", plain(data["ID"])),
            ("Name", plain(data["Name"])),
            ("Submit Date", moment(data["SubmitTime"])),
            ("Type", data["Type"]),
            ("Priority", str(data["Priority"])),
            ("Datacenters", plain(",".join(data["Datacenters"] or []))),
            ("Namespace", plain(data["Namespace"])),
            ("Node Pool", plain(data["NodePool"])),
            ("Status", styled(data["Status"]) + (" (stopped)" if data["Stop"] else "")),
            ("Version", str(data["Version"])),
            ("Periodic", str(periodic is not None).lower()),
            ("Parameterized", str(parameterized is not None).lower()),
            ("Next Periodic Launch", _next_launch(data)),
            ("Commit", plain(origin_line(data.get("Origin") or {}, options.verbose))),
        )
    )
    if options.short:
        return
    if launches:
        _show_launched(client, data)
        return
    _show_summary(client, found)
    _show_evaluations(client, found, options)
    _show_deployment(client, found, options.verbose)
    _show_actions(data)
    heading("Allocations")
    params = {"all": "true"} if options.all_allocs else {}
    show_allocations(of_job(client, found, "allocations", **params), options.verbose)


def _next_launch(data: dict[str, Any]) -> str:
    """Returns when a periodic job is launched next."""
    periodic = data["Periodic"]
    if not periodic or data["Stop"] or not periodic["Enabled"]:
        return ""
    from datetime import UTC, datetime

    from orchgit.cron import next_moment, time_zone

    specs = periodic.get("Specs") or [periodic["Spec"]]
    now, zone = datetime.now(UTC), time_zone(periodic.get("TimeZone") or "")
    moments = [found for spec in specs if (found := next_moment(spec, now, zone))]
    if not moments:
        return "none pending"
    next_ns = int(min(moments).timestamp()) * 1_000_000_000
    return f"{moment(next_ns)} ({duration(next_ns - time.time_ns())} from now)"


def _show_launched(client: ApiClient, data: dict[str, Any]) -> None:
    """Prints a periodic or parameterized job's own part, and the jobs that it launched."""
    parameters = data.get("ParameterizedJob")
    if parameters:
        heading("Parameterized Job")
        pairs(
            (
                ("Payload", parameters["Payload"] or "optional"),
                ("Required Metadata", ", ".join(parameters["MetaRequired"] or []) or "<none>"),
                ("Optional Metadata", ", ".join(parameters["MetaOptional"] or []) or "<none>"),
            )
        )
    summary = of_job(client, data, "summary")
    children = summary.get("Children") or {}
    names = ("Pending", "Running", "Dead")
    heading("Parameterized Job Summary" if parameters else "Children Job Summary")
    table(names, [[children.get(name, 0) for name in names]])
    heading("Dispatched Jobs" if parameters else "Previously Launched Jobs")
    launched = client.get("/v1/jobs", prefix=f"{data['ID']}/", namespace=data["Namespace"])
    table(
        ("ID", "Status"),
        ((plain(each["ID"]), styled(each["Status"])) for each in launched),
        empty="No instances of the job",
    )


def _show_summary(client: ApiClient, found: dict[str, Any]) -> None:
    summary = of_job(client, found, "summary")["Summary"]
    if summary:
        heading("Summary")
        table(
            ("Task Group", *_COUNTS),
            (
                (plain(group), *(counts[name] for name in _COUNTS))
                for group, counts in sorted(summary.items())
            ),
        )


def _show_evaluations(client: ApiClient, found: dict[str, Any], options: JobStatusOptions) -> None:
    evaluations = of_job(client, found, "evaluations")
    if options.verbose or options.evals:
        heading("Evaluations")
        show_evaluations(evaluations, options.verbose)
    if any(each["Status"] == "blocked" for each in evaluations):
        failed = [each for each in evaluations if each.get("FailedTGAllocs")]
        newest: dict[str, Any] = max(failed, key=lambda each: each["CreateIndex"], default={})
        show_failures(newest.get("FailedTGAllocs") or {}, "Placement Failure")


def _show_deployment(client: ApiClient, found: dict[str, Any], verbose: bool) -> None:
    try:
        deployment = of_job(client, found, "deployment")
    except ApiError as error:
        if error.status == 404:
            return
        raise
    if deployment:
        heading("Latest Deployment")
        pairs(
            (
                ("ID", short(deployment["ID"], verbose)),
                ("Status", styled(deployment["Status"])),
                ("Description", plain(deployment["StatusDescription"])),
            )
        )
        show_groups(deployment)


def _show_actions(data: dict[str, Any]) -> None:
    rows = [
        (plain(each["Name"]), plain(group["Name"]), plain(task["Name"]))
        for group in data["TaskGroups"] or []
        for task in group["Tasks"] or []
        for each in task.get("Actions") or []
    ]
    if rows:
        heading("Actions")
        table(("Action Name", "Task Group", "Task"), rows)
