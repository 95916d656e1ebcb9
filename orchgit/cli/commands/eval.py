"""`orchgit eval`: status and list."""

from __future__ import annotations

from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient
from orchgit.cli.command import cli_group
from orchgit.cli.options import connected, formatted, option, verbose_option
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


@cli_group("eval")
def eval_() -> None:
    """Look into evaluations."""


@eval_.command("status")
@click.argument("identifier")
@verbose_option
@formatted
@connected
def status(client: ApiClient, identifier: str, verbose: bool, output: OutputFormat) -> None:
    """One evaluation, and why placements failed if some did."""
    show_status(client, identifier, verbose, output)


@eval_.command("list")
@option("job", help="Only evaluations of this job.")
@verbose_option
@formatted
@connected
def list_(client: ApiClient, job: str | None, verbose: bool, output: OutputFormat) -> None:
    """All evaluations."""
    found = client.get("/v1/evaluations", job=job)
    if not output.printed(found):
        show_table(found, verbose)


def show_table(evaluations: list[dict[str, Any]], verbose: bool) -> None:
    table(
        ("ID", "Priority", "Triggered By", "Job ID", "Status", "Placement Failures"),
        (
            (
                short(each["ID"], verbose),
                each["Priority"],
                each["TriggeredBy"],
                plain(each["JobID"]),
                styled(each["Status"]),
                "true" if each.get("FailedTGAllocs") else "false",
            )
            for each in evaluations
        ),
        empty="No evaluations found",
    )


def show_status(client: ApiClient, identifier: str, verbose: bool, output: OutputFormat) -> None:
    found = client.find("eval", "/v1/evaluations", identifier)
    evaluation = client.get(f"/v1/evaluation/{found['ID']}")
    if output.printed(evaluation):
        return
    pairs(
        (
            ("ID", short(evaluation["ID"], verbose)),
            ("Create Time", ago(evaluation["CreateTime"])),
            ("Status", styled(evaluation["Status"])),
            ("Status Description", plain(evaluation.get("StatusDescription") or "")),
            ("Type", evaluation["Type"]),
            ("Triggered By", evaluation["TriggeredBy"]),
            ("Job ID", plain(evaluation["JobID"])),
            ("Namespace", plain(evaluation["Namespace"])),
            ("Priority", evaluation["Priority"]),
            ("Blocked Evaluation", short(evaluation.get("BlockedEval") or "", verbose)),
        )
    )
    show_failures(evaluation.get("FailedTGAllocs") or {})


def show_failures(failures: dict[str, dict[str, Any]]) -> None:
    """Prints why the groups' allocations could not be placed, and what would help."""
    if not failures:
        return
    heading("Failed placements")
    for group, metric in failures.items():
        missed = 1 + metric.get("CoalescedFailures", 0)
        click.echo(f'Task group "{group}" (failed to place {missed}):')
        for line in failure_lines(metric):
            click.echo(f"  * {line}")


def failure_lines(metric: dict[str, Any]) -> list[str]:
    """Returns one sentence per reason of an AllocMetric."""
    lines = []
    if not metric.get("NodesEvaluated") and not metric.get("NodesInPool"):
        pool = metric.get("NodePool") or "default"
        lines.append(f"No node in pool {pool!r} is ready")
    for datacenter, count in sorted((metric.get("NodesAvailable") or {}).items()):
        if count == 0:
            lines.append(f"No node of datacenter {datacenter!r} is available")
    for constraint, count in sorted((metric.get("ConstraintFiltered") or {}).items()):
        lines.append(f"{constraint}: {count} nodes ruled out")
    for name, count in sorted((metric.get("ClassFiltered") or {}).items()):
        lines.append(f"Class {name!r}: {count} nodes ruled out")
    for dimension, count in sorted((metric.get("DimensionExhausted") or {}).items()):
        lines.append(f"{dimension}: exhausted on {count} nodes")
    lines.extend(f"Quota reached: {quota}" for quota in metric.get("QuotaExhausted") or [])
    return lines or [f"{metric.get('NodesEvaluated', 0)} nodes were looked at, none fits"]
