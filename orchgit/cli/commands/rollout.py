"""`orchgit rollout`: list, status, watch, revert."""

from __future__ import annotations

import ipaddress
from typing import Any

import click
import msgspec

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_group
from orchgit.cli.commands.going_back import revert
from orchgit.cli.options import (
    connected,
    formatted,
    option,
    verbose_option,
    yes_option,
)
from orchgit.cli.printing.output import (
    ago,
    console,
    duration,
    heading,
    pairs,
    plain,
    short,
    styled,
    table,
)
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.cli.printing.tokens import token_row
from orchgit.cli.user_name import user_name
from orchgit.clock import SECOND_NS
from orchgit.durations import parse_length_ns

_CAUSES = {cause: f" ({cause})" for cause in ("drift", "retry", "release")}


@cli_group("rollout")
def rollout() -> None:
    """Rollouts: commits that were applied, and the health of their jobs."""


@rollout.command("list")
@option("source", help="Only rollouts of this source.")
@option("status", help="Only rollouts of this status; several are separated by commas.")
@option("commit", help="Only rollouts of commits whose ids begin so.")
@option("n", dest="limit", type=click.IntRange(1), default=20, help="How many to show.")
@verbose_option
@formatted
@connected
def list_(
    client: ApiClient,
    source: str | None,
    status: str | None,
    commit: str | None,
    limit: int,
    verbose: bool,
    output: OutputFormat,
) -> None:
    """List the rollouts, the newest first."""
    query = {"source": source, "status": status, "commit": commit, "per_page": limit}
    found = client.get("/v1/gitops/rollouts", **query)
    if output.printed(found):
        return
    table(
        ("ID", "Source", "Commit", "Author", "Subject", "Jobs", "Status", "When", "Took"),
        (
            (
                short(each["ID"], verbose),
                plain(each["Source"]),
                short(each["Commit"]["ID"], verbose),
                plain(each["Commit"]["Author"]),
                plain(each["Commit"]["Subject"]),
                sum(job["Action"] != "unchanged" for job in each["Jobs"]),
                styled(each["Status"]),
                ago(each["CreateTime"]),
                took(each),
            )
            for each in found
        ),
        empty="No rollouts of that kind: `orchgit rollout list` shows all"
        if source or status or commit
        else "No rollouts yet: push a commit, or `orchgit source add` a repository",
    )


@rollout.command("status")
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
    """Show one rollout, job by job; without IDENTIFIER the newest."""
    data = client.get(f"/v1/gitops/rollout/{identifier or newest_id(client)}")
    if not output.printed(data):
        show(data, verbose)
        _show_report(client, data)


@rollout.command("watch")
@click.argument("what", required=False, metavar="[ROLLOUT|COMMIT|SOURCE]")
@option("source", help="Only rollouts of this source, if several follow the commit.")
@option("timeout", help="Give up after this time; at first 1m for the rollout to appear.")
@formatted
@connected
def watch(
    client: ApiClient,
    what: str | None,
    source: str | None,
    timeout: str | None,
    output: OutputFormat,
) -> None:
    """Follow a rollout to its end, and show what a push shows.

    Names a rollout, the commit or the source, by its id or the beginning of it; without it, the
    newest rollout. Waits for the first rollout of a commit. Exit code 0: it is healthy, 1: it is
    not, 2: there is none, it did not end in time, or no server answered.
    """
    from orchgit.cli.rollout_watching import NOT_FOUND, RolloutWatch

    is_quiet = output.as_json or output.template is not None
    limit_s = parse_length_ns(timeout) / SECOND_NS if timeout else None
    watching = RolloutWatch(client, source, limit_s, is_quiet)
    try:
        code = watching.run(what)
    except ApiError as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(NOT_FOUND) from error
    output.printed(watching.ended)
    raise SystemExit(code)


rollout.add_command(revert)


_by_option = option("by", help="Your name [ORCHGIT_USER, or your account's name].")


@rollout.command("approve")
@click.argument("identifier")
@option("plan-hash", help="Approve only this plan; without it, the one that is shown.")
@_by_option
@yes_option
@formatted
@connected
def approve(
    client: ApiClient,
    identifier: str,
    plan_hash: str | None,
    by: str | None,
    yes: bool,
    output: OutputFormat,
) -> None:
    """Approve the plan of a rollout that waits.

    The approval is of exactly this plan: it lapses when the plan changes.
    """
    output.refuse_question(yes or plan_hash is not None)
    waiting = client.get(f"/v1/gitops/rollout/{identifier}")
    if not yes and plan_hash is None:
        show(waiting, verbose=False)
        if not click.confirm(f"Approve plan {waiting['PlanHash'][:12]}?"):
            return
    body = {"PlanHash": plan_hash or waiting["PlanHash"], "By": by or user_name()}
    answer = client.put(f"/v1/gitops/rollout/{waiting['ID']}/approve", body)
    if output.printed(answer):
        return
    gates = answer["Gates"]
    valid = sum(each["PlanHash"] == answer["PlanHash"] for each in gates["Approvals"])
    click.echo(
        f"Approved plan {answer['PlanHash'][:12]} of rollout {short(answer['ID'])}: "
        f"{valid} of {gates['ApprovalsNeeded']} approvals."
    )


@rollout.command("reject")
@click.argument("identifier")
@option("reason", required=True, help="Why the commit must not be applied.")
@_by_option
@formatted
@connected
def reject(
    client: ApiClient, identifier: str, reason: str, by: str | None, output: OutputFormat
) -> None:
    """Reject a rollout that waits: its commit is not applied by itself any more."""
    body = {"Reason": reason, "By": by or user_name()}
    answer = client.put(f"/v1/gitops/rollout/{identifier}/reject", body)
    if output.printed(answer):
        return
    click.echo(f"Rejected rollout {short(answer['ID'])}: push a new commit to change the cluster.")


def newest_id(client: ApiClient) -> str:
    """Returns the id of the newest rollout. Raises ClickException if there is none."""
    found = client.get("/v1/gitops/rollouts", per_page=1)
    if not found:
        raise click.ClickException("cannot show a rollout: there is none yet; push a commit")
    return str(found[0]["ID"])


def took(data: dict[str, Any]) -> str:
    """Returns how long a rollout took, or '-' while it goes on."""
    if not data.get("FinishedTime"):
        return "-"
    return duration(data["FinishedTime"] - data["CreateTime"])


def _show_gates(data: dict[str, Any]) -> None:
    """Prints what the gates of a rollout decided, and who approved or overrode what."""
    gates = data.get("Gates")
    if not gates:
        return
    rows = [
        (each["Gate"].capitalize(), f"{'open' if each['IsOpen'] else 'closed'}: {each['Reason']}")
        for each in gates["Decisions"]
    ]
    if gates["ApprovalsNeeded"]:
        rows.append(("Plan hash", data["PlanHash"]))
    if gates["HealthOutcome"]:
        rows.append(("Health gate", gates["HealthOutcome"]))
    pairs([(name, plain(text)) for name, text in rows])


def _show_report(client: ApiClient, data: dict[str, Any]) -> None:
    """Prints why jobs of the rollout failed, and where its services are."""
    if not data.get("AppliedTime"):
        return
    from orchgit.gitops.rollouts.service_addresses import ServiceAddress, service_lines
    from orchgit.gitops.rollouts.task_failures import TaskFailure, failure_lines

    report = client.get(f"/v1/gitops/rollout/{data['ID']}/report")
    failures = msgspec.convert(report["Failures"], list[TaskFailure])
    services = msgspec.convert(report["Services"], list[ServiceAddress])
    if failures:
        heading("Failures")
        for failure in failures:
            console().print(f"  Job {plain(failure.job_id)}:")
            for line in failure_lines(failure):
                console().print(plain(line))
    if services:
        heading("Services")
        for line in service_lines(services):
            console().print(plain(line))


def _trigger(data: dict[str, Any]) -> str:
    """Returns why the rollout was made, and who pushed or asked for it."""
    who = data.get("Pusher") or ""
    kind = "sync" if data["Trigger"] == "api" else str(data["Trigger"])
    is_known = data.get("Token") or who == "health gate"  # the server itself
    claimed = "" if is_known else " (claimed)"
    try:
        ipaddress.ip_address(who)  # a push without a name has the client's address
    except ValueError:
        return f"{kind} by {who}{claimed}" if who else kind
    return f"{kind} from {who}"


def show(data: dict[str, Any], verbose: bool) -> None:
    """Prints one rollout and its jobs."""
    commit = data["Commit"]
    pairs(
        (
            ("ID", short(data["ID"], verbose)),
            ("Source", plain(data["Source"])),
            ("Commit", short(commit["ID"], verbose)),
            ("Author", plain(f"{commit['Author']} <{commit['Email']}>")),
            ("Subject", plain(commit["Subject"])),
            ("Trigger", plain(_trigger(data))),
            token_row(data.get("Token")),
            ("Reverts", short(data.get("Reverts") or "", verbose)),
            ("Reason", plain(data.get("Reason") or "")),
            ("Status", styled(data["Status"])),
            ("Description", plain(data["StatusDescription"])),
            ("Started", ago(data["CreateTime"])),
            ("Took", took(data)),
        )
    )
    _show_gates(data)
    for problem in data.get("Problems") or []:
        console().print(f"[red]{plain(problem)}[/red]")
    changed = [job for job in data["Jobs"] if job["Action"] != "unchanged"]
    if changed:
        heading("Jobs")
        has_stages = any(job.get("Stage") for job in changed)
        stage, deployment = ["Stage"] * has_stages, ["Deployment"] * verbose
        table(
            ("Job", *stage, "Action", "Version", "File", *deployment, "Status", "Description"),
            (
                (
                    plain(job["JobID"]),
                    *([job.get("Stage", 0) + 1] * has_stages),
                    # the cause is left out where it is the commit
                    job["Action"] + _CAUSES.get(job.get("Cause") or "", ""),
                    job["JobVersion"],
                    plain(f"{job['File']}:{job['Line']}" if job["File"] else "-"),
                    *([job["DeploymentID"] or "-"] * verbose),
                    styled(job["Status"]),
                    plain(job["Description"]),
                )
                for job in changed
            ),
        )
    unchanged = len(data["Jobs"]) - len(changed)
    if unchanged:
        click.echo(f"{unchanged} job{'s' * (unchanged != 1)} unchanged.")
