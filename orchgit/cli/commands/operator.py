"""`orchgit operator`: the cluster as a whole. Groups with a file of their own are added here."""

from __future__ import annotations

import json
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError, quoted
from orchgit.cli.command import cli_group
from orchgit.cli.options import connected, formatted, length, option, verbose_option
from orchgit.cli.printing.output import moment, pairs, short, table
from orchgit.cli.printing.output_format import OutputFormat


@cli_group(
    "operator",
    lazy={
        "api": ("operator_api", "api", "Send a request to the HTTP API and print the answer"),
        "autopilot": (
            "operator_autopilot",
            "autopilot",
            "Server health, and how dead servers are removed",
        ),
        "client-state": (
            "operator_client_state",
            "client_state",
            "Show the state that an agent keeps on disk",
        ),
        "debug": ("operator_debug", "debug", "Collect diagnostics of the cluster in one archive"),
        "gossip": (
            "operator_gossip",
            "gossip",
            "Create a gossip key (Nomad's; has no effect here)",
        ),
        "raft": ("operator_raft", "raft", "Inspect and change the Raft members; read the log"),
        "snapshot": (
            "operator_snapshot",
            "snapshot",
            "Save, restore and inspect backups of the cluster's state",
        ),
        "utilization": (
            "operator_utilization",
            "utilization",
            "Write a report of what is used (Nomad Enterprise)",
        ),
    },
)
def operator() -> None:
    """The cluster as a whole: backup, scheduler configuration, metrics, root keys."""


_SCHEDULERS = ("System", "Service", "Batch", "SysBatch")


@operator.group("scheduler")
def scheduler() -> None:
    """How work is scheduled."""


@scheduler.command("get-config", ignores_extra=True)
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
            *(
                (title, str(config.get(name, False)).lower())
                for title, name in (
                    ("Memory Oversubscription", "MemoryOversubscriptionEnabled"),
                    ("Reject Job Registration", "RejectJobRegistration"),
                    ("Pause Eval Broker", "PauseEvalBroker"),
                    ("NUMA", "NUMAEnabled"),
                )
            ),
            *(
                (
                    f"Preemption {kind} Scheduler",
                    str(preemption.get(f"{kind}SchedulerEnabled", False)).lower(),
                )
                for kind in _SCHEDULERS
            ),
            (
                "Node Limit For Feasibility Checks",
                str(config.get("NodeLimitForFeasibilityChecks", 0)),
            ),
            ("Modify Index", str(config.get("ModifyIndex", 0))),
        )
    )


@scheduler.command("set-config")
@option("scheduler-algorithm", type=click.Choice(("binpack", "spread")), help="How to rank nodes.")
@option("memory-oversubscription", type=bool, help="Whether memory_max is honoured.")
@option("pause-eval-broker", type=bool, help="Hand no evaluations out.")
@option("reject-job-registration", type=bool, help="Accept no jobs.")
@option("numa", type=bool, help="Whether numa blocks of tasks with cores are heeded.")
@option("node-limit-for-feasibility-checks", type=int, help="Look at so many nodes; 0: at all.")
@option("preempt-batch-scheduler", type=bool, help="Whether batch jobs displace others.")
@option("preempt-service-scheduler", type=bool, help="Whether service jobs displace others.")
@option("preempt-sysbatch-scheduler", type=bool, help="Whether sysbatch jobs displace others.")
@option("preempt-system-scheduler", type=bool, help="Whether system jobs displace others.")
@option("check-index", type=int, help="Only if the configuration's modify index is this.")
@connected
def set_config(client: ApiClient, check_index: int | None, **given: Any) -> None:
    """Change only the scheduler settings that are given."""
    config = client.get("/v1/operator/scheduler/configuration")["SchedulerConfig"]
    wanted = {
        "SchedulerAlgorithm": given["scheduler_algorithm"],
        "MemoryOversubscriptionEnabled": given["memory_oversubscription"],
        "PauseEvalBroker": given["pause_eval_broker"],
        "RejectJobRegistration": given["reject_job_registration"],
        "NUMAEnabled": given["numa"],
        "NodeLimitForFeasibilityChecks": given["node_limit_for_feasibility_checks"],
    }
    config |= {name: value for name, value in wanted.items() if value is not None}
    preempt = {
        f"{kind}SchedulerEnabled": given[f"preempt_{kind.lower()}_scheduler"]
        for kind in _SCHEDULERS
    }
    kept = {name: value for name, value in preempt.items() if value is not None}
    config["PreemptionConfig"] = {**(config["PreemptionConfig"] or {}), **kept}
    index = config.get("ModifyIndex") or None if check_index is None else check_index
    answer = client.put("/v1/operator/scheduler/configuration", config, cas=index)
    if not answer["Updated"]:
        raise ApiError(
            "cannot change the scheduler configuration: it was changed meanwhile, or has another "
            "index than -check-index; look at it and try again"
        )
    click.echo("Scheduler configuration updated!")


@operator.group("root")
def root() -> None:
    """What the cluster's security rests on."""


@root.group("keyring")
def keyring() -> None:
    """The keys that seal variables."""


@keyring.command("list")
@verbose_option
@formatted
@connected
def keyring_list(client: ApiClient, verbose: bool, output: OutputFormat) -> None:
    """List the root keys, newest first (never key material)."""
    found = client.get("/v1/operator/keyring/keys")
    if not output.printed(found):
        table(
            ("Key", "State", "Algorithm", "Create Time", "Publish Time"),
            (
                (
                    short(each["KeyID"], verbose),
                    each["State"],
                    each["Algorithm"],
                    moment(each["CreateTime"]),
                    moment(each.get("PublishTime")) if each.get("PublishTime") else "<none>",
                )
                for each in found
            ),
            empty="No keys",
        )


@keyring.command("rotate")
@option("full", is_flag=True, help="Also seal every variable anew with the new key.")
@option("now", is_flag=True, help="Use the new key at once (always so).")
@option("prepublish", type=length, help="Refused: a new key is in use at once.")
@verbose_option
@connected
def keyring_rotate(
    client: ApiClient, full: bool, now: bool, prepublish: str | None, verbose: bool
) -> None:
    """Seal what is written from now on with a new key."""
    if now and prepublish:
        raise click.UsageError("cannot use a key at once and later: leave out -now or -prepublish")
    if prepublish:
        raise click.UsageError(
            "cannot publish a key before it is used: servers share a new key in the same moment. "
            "Rotate with -now, when the key is to be used"
        )
    params = {"full": "true"} if full else {}
    key = client.put("/v1/operator/keyring/rotate", None, **params)["Key"]
    click.echo(f"Root key {short(key['KeyID'], verbose)} is {key['State']}.")


@keyring.command("remove")
@click.argument("key_id")
@option("force", is_flag=True, help="Also a key whose tokens running tasks may hold.")
@connected
def keyring_remove(client: ApiClient, key_id: str, force: bool) -> None:
    """Delete a key that seals nothing any more."""
    known = client.get("/v1/operator/keyring/keys")
    found = [each["KeyID"] for each in known if each["KeyID"].startswith(key_id)]
    if len(found) != 1:
        what = f"{key_id!r} matches {len(found)}" if found else "no key's id begins with it"
        raise ApiError(f"cannot remove root key {key_id!r}: {what}; `keyring list -verbose`")
    forced = "true" if force else None
    client.delete(f"/v1/operator/keyring/key/{quoted(found[0])}", force=forced)
    click.echo(f"Root key {found[0]} is deleted.")


@operator.command("metrics")
@option("format", dest="format_name", type=click.Choice(("json", "prometheus")), default="json")
@option("pretty", is_flag=True, help="With line breaks.")
@formatted
@connected
def metrics(client: ApiClient, format_name: str, pretty: bool, output: OutputFormat) -> None:
    """The agent's metrics."""
    if not output.is_text:
        output.printed(client.get("/v1/metrics"))
    elif pretty and format_name == "json":
        click.echo(json.dumps(client.get("/v1/metrics"), indent=2))
    else:
        asked = "prometheus" if format_name == "prometheus" else None
        click.echo(client.get_text("/v1/metrics", format=asked))
