"""`orchgit job`: the group of commands, and those that look at jobs."""

from __future__ import annotations

import json
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError, quoted
from orchgit.cli.command import cli_group
from orchgit.cli.commands.alloc import show_table as show_allocations
from orchgit.cli.commands.deployment import show_groups
from orchgit.cli.commands.deployment import show_table as show_deployments
from orchgit.cli.commands.eval import show_failures
from orchgit.cli.commands.eval import show_table as show_evaluations
from orchgit.cli.commands.import_jobs import export
from orchgit.cli.commands.job_change import CHANGES
from orchgit.cli.commands.job_run import RUNS
from orchgit.cli.commands.set_image import set_image
from orchgit.cli.options import connected, formatted, option, verbose_option
from orchgit.cli.printing.diff_text import print_job_diff
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
from orchgit.cli.printing.tokens import token_text


@cli_group("job")
def job() -> None:
    """Run, plan, inspect, stop and revert jobs."""


for _command in (*RUNS, *CHANGES, export, set_image):
    job.add_command(_command)


@job.command("status")
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
    """One job with its summary, deployment, allocations and commit; or all jobs."""
    if identifier:
        show_status(client, identifier, verbose, output)
    else:
        show_list(client, output)


@job.command("inspect")
@click.argument("identifier")
@option("version", type=int, help="A past version.")
@option("hcl", is_flag=True, help="The text the version was made from.")
@connected
def inspect(client: ApiClient, identifier: str, version: int | None, hcl: bool) -> None:
    """The whole job as JSON."""
    found = resolve(client, identifier)
    namespace = found["Namespace"]
    if hcl:
        version = found_version(client, found) if version is None else version
        submission = client.get(
            f"/v1/job/{quoted(found['ID'])}/submission", namespace=namespace, version=version
        )
        click.echo(submission["Source"], nl=False)
        return
    data = client.get(f"/v1/job/{quoted(found['ID'])}", namespace=namespace, version=version)
    click.echo(json.dumps({"Job": data}, indent=4))


@job.command("history")
@click.argument("identifier")
@option("p", dest="with_diffs", is_flag=True, help="Show what each version changed.")
@verbose_option
@formatted
@connected
def history(
    client: ApiClient,
    identifier: str,
    with_diffs: bool,
    verbose: bool,
    output: OutputFormat,
) -> None:
    """The versions of a job, newest first, with their commits."""
    found = resolve(client, identifier)
    data = client.get(
        f"/v1/job/{quoted(found['ID'])}/versions",
        namespace=found["Namespace"],
        diffs="true" if with_diffs else None,
    )
    if output.printed(data["Versions"]):
        return
    tokens = _tokens_of_versions(client, found)
    diffs = data.get("Diffs") or []
    for number, version in enumerate(data["Versions"]):
        origin = version.get("Origin") or {}
        pairs(
            (
                ("Version", version["Version"]),
                ("Stable", str(version["Stable"]).lower()),
                ("Submitted", ago(version["SubmitTime"])),
                ("Commit", plain(origin_line(origin, verbose))),
                ("Token", plain(token_text(tokens.get(version["Version"])))),
            )
        )
        if with_diffs and number < len(diffs) and diffs[number]:
            print_job_diff(diffs[number], verbose)
        click.echo()


def _tokens_of_versions(client: ApiClient, job: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Returns whose tokens made the job's versions; servers of earlier versions do not know."""
    try:
        found = client.get(f"/v1/gitops/authors/{quoted(job['ID'])}", namespace=job["Namespace"])
    except ApiError:
        return {}
    return {int(each["Key"].rpartition("@")[2]): each for each in found}


@job.command("allocs")
@click.argument("identifier")
@verbose_option
@formatted
@connected
def allocs(client: ApiClient, identifier: str, verbose: bool, output: OutputFormat) -> None:
    """The allocations of a job."""
    found = resolve(client, identifier)
    data = _of_job(client, found, "allocations")
    if not output.printed(data):
        show_allocations(data, verbose)


@job.command("deployments")
@click.argument("identifier")
@verbose_option
@formatted
@connected
def deployments(client: ApiClient, identifier: str, verbose: bool, output: OutputFormat) -> None:
    """The deployments of a job."""
    data = _of_job(client, resolve(client, identifier), "deployments")
    if not output.printed(data):
        show_deployments(data, verbose)


def resolve(client: ApiClient, identifier: str) -> dict[str, Any]:
    """Returns the job with this id, or the only one whose id begins with it."""
    return client.find("job", "/v1/jobs", identifier, per_page=20)


def found_version(client: ApiClient, found: dict[str, Any]) -> int:
    data = client.get(f"/v1/job/{quoted(found['ID'])}", namespace=found["Namespace"])
    return int(data["Version"])


def _of_job(client: ApiClient, found: dict[str, Any], what: str) -> Any:
    return client.get(f"/v1/job/{quoted(found['ID'])}/{what}", namespace=found["Namespace"])


def origin_line(origin: dict[str, Any], verbose: bool) -> str:
    if not origin.get("CommitID"):
        return ""
    where = f" {origin['File']}:{origin['Line']}" if origin.get("File") else ""
    return f"{short(origin['CommitID'], verbose)} {origin['Subject']} ({origin['Author']}){where}"


def show_list(client: ApiClient, output: OutputFormat) -> None:
    found = client.get("/v1/jobs")
    if output.printed(found):
        return
    table(
        ("ID", "Type", "Priority", "Status", "Submit Date"),
        (
            (
                plain(each["ID"]),
                each["Type"] + ("/periodic" if each["Periodic"] else ""),
                each["Priority"],
                styled("dead (stopped)" if each["Stop"] else each["Status"]),
                ago(each["SubmitTime"]),
            )
            for each in found
        ),
        empty="No running jobs",
    )


def show_status(client: ApiClient, identifier: str, verbose: bool, output: OutputFormat) -> None:
    found = resolve(client, identifier)
    data = client.get(f"/v1/job/{quoted(found['ID'])}", namespace=found["Namespace"])
    if output.printed(data):
        return
    pairs(
        (
            ("ID", plain(data["ID"])),
            ("Name", plain(data["Name"])),
            ("Submit Date", ago(data["SubmitTime"])),
            ("Type", data["Type"]),
            ("Priority", data["Priority"]),
            ("Datacenters", plain(",".join(data["Datacenters"] or []))),
            ("Namespace", plain(data["Namespace"])),
            ("Node Pool", plain(data["NodePool"])),
            ("Status", styled(data["Status"]) + (" (stopped)" if data["Stop"] else "")),
            ("Version", data["Version"]),
            ("Periodic", str(data["Periodic"] is not None).lower()),
            ("Commit", plain(origin_line(data.get("Origin") or {}, verbose))),
        )
    )
    _show_summary(client, found)
    _show_evaluations(client, found, verbose)
    _show_deployment(client, found, verbose)
    heading("Allocations")
    show_allocations(_of_job(client, found, "allocations"), verbose)


def _show_summary(client: ApiClient, found: dict[str, Any]) -> None:
    summary = _of_job(client, found, "summary")
    children = summary.get("Children")
    if children and any(children.values()):
        heading("Children Job Summary")
        table(
            ("Pending", "Running", "Dead"),
            [(children["Pending"], children["Running"], children["Dead"])],
        )
    if summary["Summary"]:
        heading("Summary")
        names = ("Queued", "Starting", "Running", "Failed", "Complete", "Lost", "Unknown")
        table(
            ("Task Group", *names),
            (
                (plain(group), *(counts[name] for name in names))
                for group, counts in sorted(summary["Summary"].items())
            ),
        )


def _show_evaluations(client: ApiClient, found: dict[str, Any], verbose: bool) -> None:
    evaluations = _of_job(client, found, "evaluations")
    if verbose:
        heading("Evaluations")
        show_evaluations(evaluations, verbose)
    blocked = [each for each in evaluations if each["Status"] == "blocked"]
    if blocked:
        newest = max(evaluations, key=lambda each: each["CreateIndex"])
        show_failures(newest.get("FailedTGAllocs") or blocked[-1].get("FailedTGAllocs") or {})


def _show_deployment(client: ApiClient, found: dict[str, Any], verbose: bool) -> None:
    try:
        deployment = _of_job(client, found, "deployment")
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
