"""`orchgit node drain`, `eligibility` and `purge`: what work a node gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient
from orchgit.cli.client.patient_reads import PatientReads
from orchgit.cli.command import cli_command
from orchgit.cli.commands.node_find import find_node, own_node_option
from orchgit.cli.completion import NODE, id_argument
from orchgit.cli.options import (
    connected,
    named_values,
    option,
    option_field,
    options_of,
)
from orchgit.cli.printing.output import console, plain, short
from orchgit.durations import parse_length_ns

_TERMINAL = frozenset(("complete", "failed", "lost"))
_WAITS = {
    "batch": "ends by itself",
    "sysbatch": "ends by itself",
    "system": "goes last",
}
"""Type of job -> what its allocations on a draining node wait for; those of services move once
others are healthy elsewhere."""
_NEVER = "0001-01-01"
_QUIET_READS = 3
"""After so many reads without a change, 2 s each, the command says what it waits for."""


@dataclass(frozen=True, slots=True)
class DrainOptions:
    enable: bool = option_field("enable", is_flag=True, help="Start draining.")
    disable: bool = option_field("disable", is_flag=True, help="Stop draining.")
    deadline: str = option_field(
        "deadline", default="1h", help="Allocations still there after this are stopped."
    )
    force: bool = option_field("force", is_flag=True, help="Stop everything at once.")
    no_deadline: bool = option_field("no-deadline", is_flag=True, help="Wait as long as it takes.")
    ignore_system: bool = option_field(
        "ignore-system", is_flag=True, help="Leave system jobs running."
    )
    keep_ineligible: bool = option_field(
        "keep-ineligible", is_flag=True, help="With -disable: place nothing there yet."
    )
    monitor: bool = option_field(
        "monitor", is_flag=True, help="Only follow the drain that is under way."
    )
    detach: bool = option_field("detach", is_flag=True, help="Return at once instead of watching.")
    yes: bool = option_field("yes", is_flag=True, help="Do not ask for confirmation.")
    message: str | None = option_field("m", help="Why; kept with the node's last drain.")
    meta: tuple[str, ...] = option_field(
        "meta", multiple=True, help="key=value to keep with the last drain; may be repeated."
    )

    def spec(self) -> dict[str, Any] | None:
        """The request's DrainSpec; None ends the drain."""
        if not self.enable:
            return None
        deadline_ns = -1 if self.force else 0
        if not self.force and not self.no_deadline:
            deadline_ns = parse_length_ns(self.deadline)
        return {"Deadline": deadline_ns, "IgnoreSystemJobs": self.ignore_system}

    def drain_meta(self) -> dict[str, str]:
        meta = named_values("meta", self.meta)
        return {**meta, "message": self.message} if self.message else meta


@cli_command("drain")
@id_argument("identifier", NODE, required=False)
@own_node_option
@options_of(DrainOptions)
@connected
def drain(client: ApiClient, identifier: str | None, own: bool, options: DrainOptions) -> None:
    """Move everything off a node (-enable), or let work come back (-disable).

    With -enable, and with -monitor alone, the drain is followed until nothing is left that has to
    move.
    """
    if options.enable + options.disable + options.monitor == 0 or (
        options.enable and options.disable
    ):
        raise click.UsageError("cannot drain: give -enable or -disable, or -monitor alone")
    spec = options.spec()
    found = find_node(client, identifier, own)
    if not (options.enable or options.disable):
        _follow(client, found["ID"])
        return
    question = f"Drain node {short(found['ID'])} ({found['Name']})?"
    is_exact = own or identifier in (found["ID"], found["Name"])
    if options.enable and not (is_exact or options.yes) and not click.confirm(question):
        return
    client.put(
        f"/v1/node/{found['ID']}/drain",
        {
            "NodeID": found["ID"],
            "DrainSpec": spec,
            "MarkEligible": not options.keep_ineligible,
            "Meta": options.drain_meta(),
        },
    )
    click.echo(f"Node {short(found['ID'])} drain strategy {'set' if options.enable else 'unset'}.")
    if options.enable and not options.detach:
        _follow(client, found["ID"])


def _follow(client: ApiClient, node_id: str) -> None:
    """Prints what becomes of the allocations, until the drain has ended and nothing moves; where
    nothing happens for a while, what the drain waits for."""
    index, seen, told, quiet = 0, dict[str, str](), list[str](), 0
    path = f"/v1/node/{node_id}"
    reads = PatientReads(client, f"the drain of node {short(node_id)}")
    while True:
        node = reads.get(path)
        before = index
        index, found = reads.blocking_get(f"{path}/allocations", index, wait="2s", namespace="*")
        quiet = quiet + 1 if index == before else 0
        for each in found:
            status = f"{each['DesiredStatus']}, {each['ClientStatus']}"
            if seen.get(each["ID"], status) != status:
                console().print(f"    Allocation {short(each['ID'])}: {plain(status)}")
            seen[each["ID"]] = status
        strategy = node.get("DrainStrategy") or {}
        # A drain that is over may leave allocations that have been told to stop.
        if not (strategy or node["Drain"]) and all(
            each["DesiredStatus"] == "run" or each["ClientStatus"] in _TERMINAL for each in found
        ):
            break
        if quiet >= _QUIET_READS and (awaited := awaited_lines(found, strategy)) != told:
            told = awaited
            click.echo("\n".join(told))
    click.echo(f"==> Node {short(node_id)}: the drain has ended.")


def awaited_lines(allocations: list[dict[str, Any]], strategy: dict[str, Any]) -> list[str]:
    """Returns what a drain waits for, a line for each job whose allocations are still on the node,
    and when the drain's deadline stops them."""
    left: dict[str, list[dict[str, Any]]] = {}
    for each in allocations:
        if each["ClientStatus"] not in _TERMINAL:
            left.setdefault(each["JobID"], []).append(each)
    lines = []
    for job_id, held in sorted(left.items()):
        kind = str((held[0].get("Job") or {}).get("Type") or "")
        name = plain(job_id)
        if kind == "system" and strategy.get("IgnoreSystemJobs"):
            continue
        how = _WAITS.get(kind, f"healthy elsewhere first: orchgit job status {name}")
        lines.append(f"    Waiting for job {name}, {len(held)} here ({how})")
    deadline = str(strategy.get("ForceDeadline") or "")
    if lines and deadline and not deadline.startswith(_NEVER):
        lines.append(f"    The deadline, {deadline[:19]}Z, stops what is left")
    elif lines:
        lines.append("    No deadline stops what is left: orchgit node drain -enable -force does")
    return lines


@cli_command("eligibility")
@id_argument("identifier", NODE, required=False)
@own_node_option
@option("enable", is_flag=True, help="Work may be placed there.")
@option("disable", is_flag=True, help="Nothing more is placed there.")
@connected
def eligibility(
    client: ApiClient, identifier: str | None, own: bool, enable: bool, disable: bool
) -> None:
    """Whether new work may be placed on a node."""
    if enable == disable:
        raise click.UsageError(
            "cannot change eligibility: give exactly one of -enable and -disable"
        )
    found = find_node(client, identifier, own)
    wanted = "eligible" if enable else "ineligible"
    client.put(
        f"/v1/node/{found['ID']}/eligibility", {"NodeID": found["ID"], "Eligibility": wanted}
    )
    click.echo(f"Node {short(found['ID'])} is {wanted}.")


@cli_command("purge")
@id_argument("identifier", NODE)
@connected
def purge(client: ApiClient, identifier: str) -> None:
    """Forget a node; its allocations are lost and replaced elsewhere."""
    found = find_node(client, identifier)
    client.put(f"/v1/node/{found['ID']}/purge")
    click.echo(f"Node {short(found['ID'])} is purged.")
