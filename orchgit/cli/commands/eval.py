"""`orchgit eval`: status, list and delete."""

from __future__ import annotations

from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_group
from orchgit.cli.completion import EVALUATION, id_argument
from orchgit.cli.options import (
    PageOptions,
    connected,
    formatted,
    option,
    options_of,
    ui_option,
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
from orchgit.cli.printing.placement_failures import show_failures

_PLANNED = ("Ignore", "Place", "Stop", "InPlace", "Destructive")
_PLANNED_MORE = (
    *("Migrate", "Canary", "Preemptions", "Reschedule Now", "Reschedule Later", "Disconnect"),
    "Reconnect",
)
_PLAN_KEYS = {"InPlace": "InPlaceUpdate", "Destructive": "DestructiveUpdate"}


@cli_group("eval")
def eval_() -> None:
    """Look into evaluations."""


@eval_.command("status")
@id_argument("identifier", EVALUATION)
@option("monitor", is_flag=True, help="Follow it until it has ended.")
@verbose_option
@ui_option
@formatted
@connected
def status(
    client: ApiClient, identifier: str, monitor: bool, verbose: bool, output: OutputFormat
) -> None:
    """One evaluation, and why placements failed if some did."""
    if monitor:
        from orchgit.cli.printing.monitor import monitor_evaluation

        found = client.find("eval", "/v1/evaluations", identifier)
        raise SystemExit(monitor_evaluation(client, found["ID"], found["Namespace"]))
    show_status(client, identifier, verbose, output)


@eval_.command("list")
@option("job", help="Only evaluations of this job.")
@option("status", dest="status_", help="Only evaluations with this status.")
@options_of(PageOptions, "page")
@verbose_option
@ui_option
@formatted
@connected
def list_(
    client: ApiClient,
    job: str | None,
    status_: str | None,
    page: PageOptions,
    verbose: bool,
    output: OutputFormat,
) -> None:
    """All evaluations."""
    found = page.get(client, "/v1/evaluations", job=job, status=status_)
    if not output.printed(found):
        show_table(found, verbose)


@eval_.command("delete")
@id_argument("identifier", EVALUATION, required=False)
@option("filter", dest="expression", help="All that this expression is true of.")
@option("yes", is_flag=True, help="Do not ask for confirmation.")
@connected
def delete(client: ApiClient, identifier: str | None, expression: str | None, yes: bool) -> None:
    """Delete evaluations that have piled up. The evaluation broker has to be paused first:
    `orchgit operator scheduler set-config -pause-eval-broker=true`."""
    if bool(identifier) == bool(expression):
        raise click.UsageError("cannot tell what to delete: give one evaluation's id, or -filter")
    config = client.get("/v1/operator/scheduler/configuration")["SchedulerConfig"]
    if not config["PauseEvalBroker"]:
        raise ApiError(
            "cannot delete evaluations: pause the broker first, with `orchgit operator scheduler "
            "set-config -pause-eval-broker=true`"
        )
    if identifier:
        found = client.find("eval", "/v1/evaluations", identifier)
        client.delete_with("/v1/evaluations", {"EvalIDs": [found["ID"]]})
        click.echo(f"Evaluation {short(found['ID'])} is deleted.")
        return
    count = client.get("/v1/evaluations/count", filter=expression)["Count"]
    if not count:
        raise ApiError(f"cannot find evaluations of which {expression!r} is true")
    if not yes and not click.confirm(f"Delete {count} evaluations?"):
        return
    deleted = 0
    while count > 0:
        answer = client.delete_with("/v1/evaluations", {"Filter": expression})
        deleted += int(answer["Count"])
        click.echo(f"{deleted} evaluations are deleted ...")
        before, count = count, client.get("/v1/evaluations/count", filter=expression)["Count"]
        if count >= before:
            break


def show_table(evaluations: list[dict[str, Any]], verbose: bool) -> None:
    table(
        (
            *("ID", "Priority", "Triggered By", "Job ID", "Namespace", "Node ID", "Status"),
            "Placement Failures",
        ),
        (
            (
                short(each["ID"], verbose),
                each["Priority"],
                each["TriggeredBy"],
                plain(each["JobID"]),
                plain(each["Namespace"]),
                short(each.get("NodeID") or "<none>", verbose),
                styled(each["Status"]),
                _failures(each),
            )
            for each in evaluations
        ),
        empty="No evaluations found",
    )


def _failures(evaluation: dict[str, Any]) -> str:
    if evaluation["Status"] == "blocked":
        return "N/A - In Progress"
    return "true" if evaluation.get("FailedTGAllocs") else "false"


def show_status(client: ApiClient, identifier: str, verbose: bool, output: OutputFormat) -> None:
    found = client.find("eval", "/v1/evaluations", identifier)
    evaluation = client.get(f"/v1/evaluation/{found['ID']}", related="true")
    if output.printed(evaluation):
        return
    described = evaluation.get("StatusDescription") or evaluation["Status"]
    pairs(
        (
            ("ID", short(evaluation["ID"], verbose)),
            ("Create Time", ago(evaluation["CreateTime"])),
            ("Modify Time", ago(evaluation["ModifyTime"])),
            ("Status", styled(evaluation["Status"])),
            ("Status Description", plain(described)),
            ("Type", evaluation["Type"]),
            ("TriggeredBy", evaluation["TriggeredBy"]),
            ("Job ID", plain(evaluation["JobID"])),
            ("Namespace", plain(evaluation["Namespace"])),
            ("Node ID", short(evaluation.get("NodeID") or "", verbose)),
            ("Deployment ID", short(evaluation.get("DeploymentID") or "", verbose)),
            ("Priority", str(evaluation["Priority"])),
            ("Placement Failures", _failures(evaluation)),
            ("Previous Eval", short(evaluation.get("PreviousEval") or "<none>", verbose)),
            ("Next Eval", short(evaluation.get("NextEval") or "<none>", verbose)),
            ("Blocked Eval", short(evaluation.get("BlockedEval") or "<none>", verbose)),
        )
    )
    _show_plan(evaluation, verbose)
    _show_related(evaluation, verbose)
    show_failures(evaluation.get("FailedTGAllocs") or {})


def _show_plan(evaluation: dict[str, Any], verbose: bool) -> None:
    planned = (evaluation.get("PlanAnnotations") or {}).get("DesiredTGUpdates") or {}
    if planned:
        names = (*_PLANNED, *_PLANNED_MORE) if verbose else _PLANNED
        keys = [_PLAN_KEYS.get(name, name.replace(" ", "")) for name in names]
        heading("Plan Annotations")
        table(
            ("Task Group", *names),
            (
                (plain(group), *(counts.get(key, 0) for key in keys))
                for group, counts in sorted(planned.items())
            ),
        )


def _show_related(evaluation: dict[str, Any], verbose: bool) -> None:
    related = evaluation.get("RelatedEvals") or []
    if related:
        heading("Related Evaluations")
        table(
            ("ID", "Priority", "Triggered By", "Node ID", "Status", "Description"),
            (
                (
                    short(each["ID"], verbose),
                    each["Priority"],
                    each["TriggeredBy"],
                    short(each.get("NodeID") or "<none>", verbose),
                    styled(each["Status"]),
                    plain(each.get("StatusDescription") or "<none>"),
                )
                for each in related
            ),
        )
