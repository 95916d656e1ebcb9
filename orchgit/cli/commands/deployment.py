"""`orchgit deployment`: list, status, promote, pause, resume, fail, unblock."""

from __future__ import annotations

from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient
from orchgit.cli.command import cli_group
from orchgit.cli.completion import DEPLOYMENT, id_argument
from orchgit.cli.options import (
    connected,
    detach_option,
    filter_option,
    formatted,
    length,
    option,
    ui_option,
    verbose_option,
)
from orchgit.cli.printing.commit_text import commit_line
from orchgit.cli.printing.deployment_groups import show_groups
from orchgit.cli.printing.output import pairs, plain, short, styled, table
from orchgit.cli.printing.output_format import OutputFormat


@cli_group("deployment")
def deployment() -> None:
    """Follow, promote, pause and fail deployments."""


@deployment.command("list")
@filter_option
@verbose_option
@formatted
@connected
def list_(client: ApiClient, filter: str | None, verbose: bool, output: OutputFormat) -> None:
    """All deployments."""
    found = client.get("/v1/deployments", filter=filter)
    if not output.printed(found):
        show_table(found, verbose)


@deployment.command("status")
@id_argument("identifier", DEPLOYMENT, required=False)
@option("monitor", is_flag=True, help="Follow it until it has ended.")
@option("wait", type=length, help="With -monitor: how long to wait between two looks, such as 2s.")
@verbose_option
@ui_option
@formatted
@connected
def status(
    client: ApiClient,
    identifier: str | None,
    monitor: bool,
    wait: str | None,
    verbose: bool,
    output: OutputFormat,
) -> None:
    """One deployment, group by group, and the commit it came from; or all of them."""
    if not identifier:
        found = client.get("/v1/deployments")
        if not output.printed(found):
            show_table(found, verbose)
    elif monitor:
        from orchgit.cli.printing.monitor import follow_deployment

        found = client.find("deployment", "/v1/deployments", identifier)
        raise SystemExit(follow_deployment(client, found["ID"], wait))
    else:
        show_status(client, identifier, verbose, output)


@deployment.command("promote")
@id_argument("identifier", DEPLOYMENT)
@option("group", multiple=True, help="Promote only this group; may be repeated.")
@detach_option
@verbose_option
@formatted
@connected
def promote(
    client: ApiClient,
    identifier: str,
    group: tuple[str, ...],
    detach: bool,
    verbose: bool,
    output: OutputFormat,
) -> None:
    """Make the canaries of a deployment its version."""
    body = {"All": not group, "Groups": list(group)}
    found, answer = _change(client, "promote", identifier, body)
    if output.printed(answer):
        return
    click.echo(f"Deployment {short(found['ID'], verbose)} is promoted.")
    _follow(client, found, answer, detach)


@deployment.command("pause")
@id_argument("identifier", DEPLOYMENT)
@verbose_option
@formatted
@connected
def pause(client: ApiClient, identifier: str, verbose: bool, output: OutputFormat) -> None:
    """Place nothing more for a deployment until it is resumed."""
    found, answer = _change(client, "pause", identifier, {"Pause": True})
    if output.printed(answer):
        return
    click.echo(f"Deployment {short(found['ID'], verbose)} is paused.")


@deployment.command("resume")
@id_argument("identifier", DEPLOYMENT)
@detach_option
@verbose_option
@formatted
@connected
def resume(
    client: ApiClient, identifier: str, detach: bool, verbose: bool, output: OutputFormat
) -> None:
    """Go on with a paused deployment."""
    found, answer = _change(client, "pause", identifier, {"Pause": False})
    if output.printed(answer):
        return
    click.echo(f"Deployment {short(found['ID'], verbose)} is resumed.")
    _follow(client, found, answer, detach)


@deployment.command("fail")
@id_argument("identifier", DEPLOYMENT)
@detach_option
@verbose_option
@formatted
@connected
def fail(
    client: ApiClient, identifier: str, detach: bool, verbose: bool, output: OutputFormat
) -> None:
    """End a deployment as failed; with auto_revert the last stable version runs again."""
    found, answer = _change(client, "fail", identifier, {})
    if output.printed(answer):
        return
    click.echo(f"Deployment {short(found['ID'], verbose)} is failed.")
    if answer.get("RevertedJobVersion") is not None:
        click.echo(f"The job runs version {answer['RevertedJobVersion']} again.")
    _follow(client, found, answer, detach)


@deployment.command("unblock")
@id_argument("identifier", DEPLOYMENT)
@detach_option
@verbose_option
@formatted
@connected
def unblock(
    client: ApiClient, identifier: str, detach: bool, verbose: bool, output: OutputFormat
) -> None:
    """Let a deployment go on that waits for other regions."""
    found, answer = _change(client, "unblock", identifier, {})
    if output.printed(answer):
        return
    click.echo(f"Deployment {short(found['ID'], verbose)} is unblocked.")
    _follow(client, found, answer, detach)


def _change(
    client: ApiClient, verb: str, identifier: str, body: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the deployment, and what the server answered to its change."""
    found = client.find("deployment", "/v1/deployments", identifier)
    path = f"/v1/deployment/{verb}/{found['ID']}"
    answer = client.put(path, {"DeploymentID": found["ID"], **body})
    return found, answer or {}


def _follow(client: ApiClient, found: dict[str, Any], answer: dict[str, Any], detach: bool) -> None:
    """Follows the evaluation of a change, where there is one. Its outcome is for people: the
    change itself is made."""
    if answer.get("EvalID") and not detach:
        from orchgit.cli.printing.monitor import monitor_evaluation

        monitor_evaluation(client, answer["EvalID"], found["Namespace"], with_deployment=False)


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
