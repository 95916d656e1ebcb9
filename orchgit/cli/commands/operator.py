"""`orchgit operator`: scheduler configuration, metrics, raw requests."""

from __future__ import annotations

import json
import sys

import click

from orchgit.cli.http_client import ApiClient
from orchgit.cli.options import connected, formatted, option
from orchgit.cli.output import formatted as print_formatted
from orchgit.cli.output import pairs


@click.group("operator")
def operator() -> None:
    """Scheduler configuration and metrics."""


@operator.group("scheduler")
def scheduler() -> None:
    """How work is scheduled."""


@scheduler.command("get-config")
@formatted
@connected
def get_config(client: ApiClient, as_json: bool, template: str | None) -> None:
    """The scheduler configuration."""
    config = client.get("/v1/operator/scheduler/configuration")["SchedulerConfig"]
    if print_formatted(config, as_json, template):
        return
    preemption = config["PreemptionConfig"]
    pairs(
        (
            ("Scheduler Algorithm", config["SchedulerAlgorithm"]),
            ("Memory Oversubscription", config["MemoryOversubscriptionEnabled"]),
            ("Reject Job Registration", config["RejectJobRegistration"]),
            ("Pause Eval Broker", config["PauseEvalBroker"]),
            *((f"Preemption {name}", value) for name, value in sorted(preemption.items())),
        )
    )


@scheduler.command("set-config")
@option("scheduler-algorithm", type=click.Choice(("binpack", "spread")), help="How to rank nodes.")
@option("memory-oversubscription", type=bool, help="Whether memory_max is honoured.")
@option("pause-eval-broker", type=bool, help="Hand no evaluations out.")
@option("reject-job-registration", type=bool, help="Accept no jobs.")
@connected
def set_config(
    client: ApiClient,
    scheduler_algorithm: str | None,
    memory_oversubscription: bool | None,
    pause_eval_broker: bool | None,
    reject_job_registration: bool | None,
) -> None:
    """Change what is given of the scheduler configuration."""
    config = client.get("/v1/operator/scheduler/configuration")["SchedulerConfig"]
    wanted = {
        "SchedulerAlgorithm": scheduler_algorithm,
        "MemoryOversubscriptionEnabled": memory_oversubscription,
        "PauseEvalBroker": pause_eval_broker,
        "RejectJobRegistration": reject_job_registration,
    }
    config |= {name: value for name, value in wanted.items() if value is not None}
    client.put(
        "/v1/operator/scheduler/configuration", config, cas=config.get("ModifyIndex") or None
    )
    click.echo("Scheduler configuration updated!")


@operator.command("metrics")
@option("format", dest="format_name", type=click.Choice(("json", "prometheus")), default="json")
@connected
def metrics(client: ApiClient, format_name: str) -> None:
    """The agent's metrics."""
    asked = "prometheus" if format_name == "prometheus" else None
    click.echo(client.get_text("/v1/metrics", format=asked))


@operator.command("api")
@click.argument("path")
@option("X", dest="method", default="GET", help="Method of the request.")
@connected
def api(client: ApiClient, path: str, method: str) -> None:
    """Send a request and print the answer."""
    if method == "GET":
        click.echo(client.get_text(path))
        return
    body = sys.stdin.read()
    sent = json.loads(body) if body else None
    answer = client.delete(path) if method == "DELETE" else client.put(path, sent)
    click.echo(json.dumps(answer, indent=4))
