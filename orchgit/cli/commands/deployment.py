"""`orchgit deployment`: list, status, promote, pause, resume, fail."""

from __future__ import annotations

from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient
from orchgit.cli.command import cli_group
from orchgit.cli.options import connected, formatted, option, verbose_option
from orchgit.cli.printing.commit_text import commit_line
from orchgit.cli.printing.output import heading, pairs, plain, short, styled, table
from orchgit.cli.printing.output_format import OutputFormat


@cli_group("deployment")
def deployment() -> None:
    """Follow, promote, pause and fail deployments."""


@deployment.command("list")
@verbose_option
@formatted
@connected
def list_(client: ApiClient, verbose: bool, output: OutputFormat) -> None:
    """All deployments."""
    found = client.get("/v1/deployments")
    if not output.printed(found):
        show_table(found, verbose)


@deployment.command("status")
@click.argument("identifier")
@verbose_option
@formatted
@connected
def status(client: ApiClient, identifier: str, verbose: bool, output: OutputFormat) -> None:
    """One deployment, group by group, and the commit it came from."""
    show_status(client, identifier, verbose, output)


@deployment.command("promote")
@click.argument("identifier")
@option("group", multiple=True, help="Promote only this group; may be repeated.")
@connected
def promote(client: ApiClient, identifier: str, group: tuple[str, ...]) -> None:
    """Make the canaries of a deployment its version."""
    found = client.find("deployment", "/v1/deployments", identifier)
    body = {"DeploymentID": found["ID"], "All": not group, "Groups": list(group)}
    client.put(f"/v1/deployment/promote/{found['ID']}", body)
    click.echo(f"Deployment {short(found['ID'])} is promoted.")


@deployment.command("pause")
@click.argument("identifier")
@connected
def pause(client: ApiClient, identifier: str) -> None:
    """Place nothing more for a deployment until it is resumed."""
    _set_paused(client, identifier, paused=True)


@deployment.command("resume")
@click.argument("identifier")
@connected
def resume(client: ApiClient, identifier: str) -> None:
    """Go on with a paused deployment."""
    _set_paused(client, identifier, paused=False)


@deployment.command("fail")
@click.argument("identifier")
@connected
def fail(client: ApiClient, identifier: str) -> None:
    """End a deployment as failed; with auto_revert the last stable version runs again."""
    found = client.find("deployment", "/v1/deployments", identifier)
    answer = client.put(f"/v1/deployment/fail/{found['ID']}", {})
    click.echo(f"Deployment {short(found['ID'])} is failed.")
    if answer.get("RevertedJobVersion") is not None:
        click.echo(f"The job runs version {answer['RevertedJobVersion']} again.")


def _set_paused(client: ApiClient, identifier: str, paused: bool) -> None:
    found = client.find("deployment", "/v1/deployments", identifier)
    body = {"DeploymentID": found["ID"], "Pause": paused}
    client.put(f"/v1/deployment/pause/{found['ID']}", body)
    click.echo(f"Deployment {short(found['ID'])} is {'paused' if paused else 'resumed'}.")


def show_table(deployments: list[dict[str, Any]], verbose: bool) -> None:
    table(
        ("ID", "Job ID", "Job Version", "Commit", "Status", "Description"),
        (
            (
                short(each["ID"], verbose),
                plain(each["JobID"]),
                each["JobVersion"],
                short(each.get("CommitID") or "-", verbose),
                styled(each["Status"]),
                plain(each["StatusDescription"]),
            )
            for each in deployments
        ),
        empty="No deployments found",
    )


def show_status(client: ApiClient, identifier: str, verbose: bool, output: OutputFormat) -> None:
    found = client.find("deployment", "/v1/deployments", identifier)
    data = client.get(f"/v1/deployment/{found['ID']}")
    if output.printed(data):
        return
    pairs(
        (
            ("ID", short(data["ID"], verbose)),
            ("Job ID", plain(data["JobID"])),
            ("Job Version", data["JobVersion"]),
            ("Status", styled(data["Status"])),
            ("Description", plain(data["StatusDescription"])),
            ("Commit", commit_line(client, data, verbose)),
        )
    )
    show_groups(data)


def show_groups(data: dict[str, Any]) -> None:
    heading("Deployed")
    table(
        ("Task Group", "Promoted", "Desired", "Canaries", "Placed", "Healthy", "Unhealthy"),
        (
            (
                plain(name),
                str(group["Promoted"]).lower() if group["DesiredCanaries"] else "-",
                group["DesiredTotal"],
                group["DesiredCanaries"] or "-",
                group["PlacedAllocs"],
                group["HealthyAllocs"],
                group["UnhealthyAllocs"],
            )
            for name, group in sorted(data["TaskGroups"].items())
        ),
    )
