"""`orchgit node`: status, drain, eligibility, purge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_group
from orchgit.cli.commands.alloc import show_table as show_allocations
from orchgit.cli.options import (
    connected,
    formatted,
    named_values,
    option,
    option_field,
    options_of,
    verbose_option,
    yes_option,
)
from orchgit.cli.printing.output import heading, pairs, plain, short, styled, table
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.durations import parse_length_ns

own_node_option = option(
    "self", dest="own", is_flag=True, help="The node of the agent that is asked."
)


@cli_group("node")
def node() -> None:
    """Look into nodes, drain them, make them eligible."""


@node.command("status")
@click.argument("identifier", required=False)
@own_node_option
@option("allocs", is_flag=True, help="Count the allocations of each node.")
@verbose_option
@formatted
@connected
def status(
    client: ApiClient,
    identifier: str | None,
    own: bool,
    allocs: bool,
    verbose: bool,
    output: OutputFormat,
) -> None:
    """All nodes, or one of them with its drivers, resources and allocations."""
    if own:
        identifier = own_node_id(client)
    if identifier:
        show_status(client, identifier, verbose, output)
        return
    found = client.get("/v1/nodes")
    if output.printed(found):
        return
    counts = _running_counts(client, found) if allocs else {}
    columns = ["ID", "Node Pool", "DC", "Name", "Class", "Drain", "Eligibility", "Status"]
    table(
        [*columns, "Running Allocs"] if allocs else columns,
        (
            [
                short(each["ID"], verbose),
                plain(each["NodePool"]),
                plain(each["Datacenter"]),
                plain(each["Name"]),
                plain(each["NodeClass"] or "<none>"),
                str(each["Drain"]).lower(),
                each["SchedulingEligibility"],
                styled(each["Status"]),
                *([counts[each["ID"]]] if allocs else []),
            ]
            for each in found
        ),
        empty="No nodes registered",
    )


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


@node.command("drain")
@click.argument("identifier", required=False)
@own_node_option
@options_of(DrainOptions)
@yes_option
@connected
def drain(
    client: ApiClient, identifier: str | None, own: bool, options: DrainOptions, yes: bool
) -> None:
    """Move everything off a node (-enable), or let work come back (-disable)."""
    if options.enable == options.disable:
        raise click.UsageError("cannot drain: give exactly one of -enable and -disable")
    found = _find(client, identifier, own)
    question = f"Drain node {short(found['ID'])} ({found['Name']})?"
    if options.enable and not yes and not click.confirm(question):
        return
    client.put(
        f"/v1/node/{found['ID']}/drain",
        {
            "NodeID": found["ID"],
            "DrainSpec": options.spec(),
            "MarkEligible": not options.keep_ineligible,
            "Meta": options.drain_meta(),
        },
    )
    click.echo(f"Node {short(found['ID'])} drain strategy {'set' if options.enable else 'unset'}.")


@node.command("eligibility")
@click.argument("identifier", required=False)
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
    found = _find(client, identifier, own)
    wanted = "eligible" if enable else "ineligible"
    client.put(
        f"/v1/node/{found['ID']}/eligibility", {"NodeID": found["ID"], "Eligibility": wanted}
    )
    click.echo(f"Node {short(found['ID'])} is {wanted}.")


@node.command("purge")
@click.argument("identifier")
@connected
def purge(client: ApiClient, identifier: str) -> None:
    """Forget a node; its allocations are lost and replaced elsewhere."""
    found = client.find("node", "/v1/nodes", identifier)
    client.put(f"/v1/node/{found['ID']}/purge")
    click.echo(f"Node {short(found['ID'])} is purged.")


def own_node_id(client: ApiClient) -> str:
    """Returns the node of the agent that answers; raises ApiError where it runs no client."""
    stats = client.get("/v1/agent/self").get("stats") or {}
    identifier = (stats.get("client") or {}).get("node_id")
    if not identifier:
        raise ApiError("cannot tell which node this is: the agent asked runs no client")
    return str(identifier)


def last_drain(data: dict[str, Any]) -> str:
    """Returns `canceled at 2027-01-15T08:00:00Z (message: new disks)`, or ""."""
    last = data.get("LastDrain")
    if not last:
        return ""
    meta = "; ".join(f"{key}: {value}" for key, value in sorted((last.get("Meta") or {}).items()))
    return f"{last['Status']} at {last['UpdatedAt']}" + (f" ({meta})" if meta else "")


def _find(client: ApiClient, identifier: str | None, own: bool) -> dict[str, Any]:
    if own:
        identifier = own_node_id(client)
    if not identifier:
        raise click.UsageError("cannot tell which node: give its id, or -self")
    return client.find("node", "/v1/nodes", identifier)


def _running_counts(client: ApiClient, nodes: list[dict[str, Any]]) -> dict[str, int]:
    running = client.get("/v1/allocations", namespace="*", filter='ClientStatus == "running"')
    counts = {each["ID"]: 0 for each in nodes}
    for each in running:
        counts[each["NodeID"]] = counts.get(each["NodeID"], 0) + 1
    return counts


def show_status(client: ApiClient, identifier: str, verbose: bool, output: OutputFormat) -> None:
    found = client.find("node", "/v1/nodes", identifier)
    data = client.get(f"/v1/node/{found['ID']}")
    if output.printed(data):
        return
    drivers = sorted(name for name, info in data["Drivers"].items() if info["Healthy"])
    resources = data["NodeResources"]
    pairs(
        (
            ("ID", short(data["ID"], verbose)),
            ("Name", plain(data["Name"])),
            ("Node Pool", plain(data["NodePool"])),
            ("Class", plain(data["NodeClass"] or "<none>")),
            ("DC", plain(data["Datacenter"])),
            ("Drain", str(data["Drain"]).lower()),
            ("Last Drain", plain(last_drain(data))),
            ("Eligibility", data["SchedulingEligibility"]),
            ("Status", styled(data["Status"])),
            ("Drivers", ", ".join(drivers) or "<none>"),
            ("Host Volumes", ", ".join(sorted(data.get("HostVolumes") or {})) or "<none>"),
            ("CPU", f"{resources['Cpu']['CpuShares']} MHz"),
            ("Memory", f"{resources['Memory']['MemoryMB']} MiB"),
            ("Disk", f"{resources['Disk']['DiskMB']} MiB"),
        )
    )
    heading("Allocations")
    show_allocations(client.get(f"/v1/node/{data['ID']}/allocations"), verbose)
    if verbose:
        heading("Attributes")
        pairs((name, plain(value)) for name, value in sorted(data["Attributes"].items()))
