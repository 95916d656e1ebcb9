"""`orchgit job stop`, `start`, `revert`, `dispatch`, `scale`, `eval`, `periodic`, `promote`."""

from __future__ import annotations

import base64
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError, quoted
from orchgit.cli.command import cli_command, cli_group
from orchgit.cli.job_files.job_files import read_input
from orchgit.cli.options import connected, detach_option, named_values, option, yes_option
from orchgit.cli.printing.monitor import monitor_evaluation
from orchgit.cli.printing.output import console, plain, short
from orchgit.whole_number import whole_number


@cli_command("stop")
@click.argument("identifiers", nargs=-1, required=True)
@option("purge", is_flag=True, help="Forget the job at once, its claims and history too.")
@detach_option
@yes_option
@connected
def stop(
    client: ApiClient, identifiers: tuple[str, ...], purge: bool, detach: bool, yes: bool
) -> None:
    """Stop jobs."""
    for identifier in identifiers:
        found = _resolve(client, identifier)
        if not yes and not click.confirm(f"Stop job {found['ID']!r}?"):
            continue
        answer = client.delete(
            f"/v1/job/{quoted(found['ID'])}",
            namespace=found["Namespace"],
            purge="true" if purge else None,
        )
        _follow(client, found, answer, detach, with_deployment=False)


@cli_command("revert")
@click.argument("identifier")
@click.argument("version", type=int)
@detach_option
@connected
def revert(client: ApiClient, identifier: str, version: int, detach: bool) -> None:
    """Run a past version of a job again."""
    found = _resolve(client, identifier)
    body = {"JobID": found["ID"], "JobVersion": version}
    answer = client.put(f"/v1/job/{quoted(found['ID'])}/revert", body, namespace=found["Namespace"])
    _follow(client, found, answer, detach)


@cli_command("scale")
@click.argument("identifier")
@click.argument("group_or_count")
@click.argument("count", type=int, required=False)
@detach_option
@connected
def scale(
    client: ApiClient, identifier: str, group_or_count: str, count: int | None, detach: bool
) -> None:
    """Change the count of a group: `orchgit job scale JOB [GROUP] COUNT`."""
    found = _resolve(client, identifier)
    group, wanted = group_or_count, count
    if wanted is None:
        wanted = whole_number(group_or_count)
        if wanted is None:
            raise click.UsageError(f"cannot scale to {group_or_count!r}: give a whole number")
        job = client.get(f"/v1/job/{quoted(found['ID'])}", namespace=found["Namespace"])
        names = [group["Name"] for group in job["TaskGroups"]]
        if len(names) != 1:
            raise ApiError(f"cannot tell which group to scale: name one of {', '.join(names)}")
        (group,) = names
    body = {"Count": wanted, "Target": {"Group": group}, "Message": "orchgit job scale"}
    answer = client.put(f"/v1/job/{quoted(found['ID'])}/scale", body, namespace=found["Namespace"])
    _follow(client, found, answer, detach)


@cli_command("dispatch")
@click.argument("identifier")
@click.argument("payload_path", required=False)
@option("meta", multiple=True, help="Meta of the dispatched job, KEY=VALUE; may be repeated.")
@option("idempotency-token", help="A second dispatch with the same token makes no second job.")
@detach_option
@connected
def dispatch(
    client: ApiClient,
    identifier: str,
    payload_path: str | None,
    meta: tuple[str, ...],
    idempotency_token: str | None,
    detach: bool,
) -> None:
    """Launch a parameterized job, with a payload from a file (or `-`)."""
    found = _resolve(client, identifier)
    payload = read_input(payload_path) if payload_path else b""
    body = {
        "JobID": found["ID"],
        "Payload": base64.b64encode(payload).decode() if payload else None,
        "Meta": named_values("meta", meta),
    }
    answer = client.put(
        f"/v1/job/{quoted(found['ID'])}/dispatch",
        body,
        namespace=found["Namespace"],
        idempotency_token=idempotency_token,
    )
    click.echo(f"Dispatched job: {answer['DispatchedJobID']}")
    _follow(client, found, answer, detach)


@cli_command("eval")
@click.argument("identifier")
@option("force-reschedule", is_flag=True, help="Replace failed allocations now.")
@detach_option
@connected
def evaluate(client: ApiClient, identifier: str, force_reschedule: bool, detach: bool) -> None:
    """Look at a job again."""
    found = _resolve(client, identifier)
    body = {"JobID": found["ID"], "EvalOptions": {"ForceReschedule": force_reschedule}}
    answer = client.put(
        f"/v1/job/{quoted(found['ID'])}/evaluate", body, namespace=found["Namespace"]
    )
    _follow(client, found, answer, detach)


@cli_group("periodic")
def periodic() -> None:
    """Periodic jobs."""


@periodic.command("force")
@click.argument("identifier")
@detach_option
@connected
def force(client: ApiClient, identifier: str, detach: bool) -> None:
    """Launch a periodic job now."""
    found = _resolve(client, identifier)
    answer = client.put(
        f"/v1/job/{quoted(found['ID'])}/periodic/force", namespace=found["Namespace"]
    )
    _follow(client, found, answer, detach)


@cli_command("promote")
@click.argument("identifier")
@option("group", multiple=True, help="Promote only this group; may be repeated.")
@connected
def promote(client: ApiClient, identifier: str, group: tuple[str, ...]) -> None:
    """Make the canaries of a job's deployment its version."""
    found = _resolve(client, identifier)
    deployment = client.get(
        f"/v1/job/{quoted(found['ID'])}/deployment", namespace=found["Namespace"]
    )
    if not deployment:
        raise ApiError(f"cannot promote: job {found['ID']!r} has no deployment")
    body = {"DeploymentID": deployment["ID"], "All": not group, "Groups": list(group)}
    client.put(f"/v1/deployment/promote/{deployment['ID']}", body)
    click.echo(f"Deployment {short(deployment['ID'])} is promoted.")


def _resolve(client: ApiClient, identifier: str) -> dict[str, Any]:
    return client.find("job", "/v1/jobs", identifier, per_page=20)


def _follow(
    client: ApiClient,
    found: dict[str, Any],
    answer: dict[str, Any],
    detach: bool,
    with_deployment: bool = True,
) -> None:
    if answer.get("Warnings"):
        console().print(f"[yellow]Warnings:[/yellow]\n{plain(answer['Warnings'])}")
    if not answer.get("EvalID"):
        return
    console().print(f"==> Job {found['ID']!r}: evaluation {short(answer['EvalID'])}")
    if not detach:
        code = monitor_evaluation(client, answer["EvalID"], found["Namespace"], with_deployment)
        if code:
            raise SystemExit(code)


CHANGES = (stop, revert, scale, dispatch, evaluate, periodic, promote)
