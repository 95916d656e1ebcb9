"""`orchgit operator`: the cluster as a whole. Groups with a file of their own are added here."""

from __future__ import annotations

import json
import sys

import click

from orchgit.cli.client.http_client import ApiClient, quoted
from orchgit.cli.command import cli_group
from orchgit.cli.commands.operator_autopilot import autopilot
from orchgit.cli.commands.operator_raft import raft
from orchgit.cli.commands.operator_snapshot import snapshot
from orchgit.cli.options import connected, formatted, option
from orchgit.cli.printing.output import ago, pairs, table
from orchgit.cli.printing.output_format import OutputFormat


@cli_group("operator")
def operator() -> None:
    """The cluster as a whole: backup, scheduler configuration, metrics, root keys."""


for _group in (autopilot, raft, snapshot):
    operator.add_command(_group)


@operator.group("scheduler")
def scheduler() -> None:
    """How work is scheduled."""


@scheduler.command("get-config")
@formatted
@connected
def get_config(client: ApiClient, output: OutputFormat) -> None:
    """The scheduler configuration."""
    config = client.get("/v1/operator/scheduler/configuration")["SchedulerConfig"]
    if output.printed(config):
        return
    preemption = config["PreemptionConfig"]
    pairs(
        (
            ("Scheduler Algorithm", config["SchedulerAlgorithm"]),
            ("Memory Oversubscription", config["MemoryOversubscriptionEnabled"]),
            ("Reject Job Registration", config["RejectJobRegistration"]),
            ("Pause Eval Broker", config["PauseEvalBroker"]),
            ("NUMA", config["NUMAEnabled"]),
            *((f"Preemption {name}", value) for name, value in sorted(preemption.items())),
        )
    )


@scheduler.command("set-config")
@option("scheduler-algorithm", type=click.Choice(("binpack", "spread")), help="How to rank nodes.")
@option("memory-oversubscription", type=bool, help="Whether memory_max is honoured.")
@option("pause-eval-broker", type=bool, help="Hand no evaluations out.")
@option("reject-job-registration", type=bool, help="Accept no jobs.")
@option("numa", type=bool, help="Whether numa blocks of tasks with cores are heeded.")
@connected
def set_config(
    client: ApiClient,
    scheduler_algorithm: str | None,
    memory_oversubscription: bool | None,
    pause_eval_broker: bool | None,
    reject_job_registration: bool | None,
    numa: bool | None,
) -> None:
    """Change what is given of the scheduler configuration."""
    config = client.get("/v1/operator/scheduler/configuration")["SchedulerConfig"]
    wanted = {
        "SchedulerAlgorithm": scheduler_algorithm,
        "MemoryOversubscriptionEnabled": memory_oversubscription,
        "PauseEvalBroker": pause_eval_broker,
        "RejectJobRegistration": reject_job_registration,
        "NUMAEnabled": numa,
    }
    config |= {name: value for name, value in wanted.items() if value is not None}
    client.put(
        "/v1/operator/scheduler/configuration", config, cas=config.get("ModifyIndex") or None
    )
    click.echo("Scheduler configuration updated!")


@operator.group("root")
def root() -> None:
    """What the cluster's security rests on."""


@root.group("keyring")
def keyring() -> None:
    """The keys that seal variables."""


@keyring.command("list")
@formatted
@connected
def keyring_list(client: ApiClient, output: OutputFormat) -> None:
    """The root keys, newest first; not what they are made of."""
    found = client.get("/v1/operator/keyring/keys")
    if not output.printed(found):
        table(
            ("Key", "State", "Algorithm", "Created"),
            (
                (each["KeyID"], each["State"], each["Algorithm"], ago(each["CreateTime"]))
                for each in found
            ),
            empty="No keys",
        )


@keyring.command("rotate")
@option("full", is_flag=True, help="Also seal every variable anew with the new key.")
@option("now", is_flag=True, help="Accepted for Nomad's scripts: a new key is active at once.")
@connected
def keyring_rotate(client: ApiClient, full: bool, now: bool) -> None:
    """Seal what is written from now on with a new key."""
    asked = {"full": "true"} if full else {}
    key = client.put("/v1/operator/keyring/rotate", None, **asked)["Key"]
    click.echo(f"Root key {key['KeyID']} is active.")


@keyring.command("remove")
@click.argument("key_id")
@connected
def keyring_remove(client: ApiClient, key_id: str) -> None:
    """Delete a key that seals nothing any more."""
    client.delete(f"/v1/operator/keyring/key/{quoted(key_id)}")
    click.echo(f"Root key {key_id} is deleted.")


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
