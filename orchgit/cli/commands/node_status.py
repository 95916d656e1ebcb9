"""`orchgit node status`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_command
from orchgit.cli.commands.alloc_status import show_table as show_allocations
from orchgit.cli.commands.node_find import find_node, own_node_id, own_node_option
from orchgit.cli.completion import NODE, id_argument
from orchgit.cli.options import (
    PageOptions,
    connected,
    formatted,
    option_field,
    options_of,
    ui_option,
)
from orchgit.cli.printing.output import (
    amount,
    duration,
    heading,
    pairs,
    plain,
    short,
    styled,
    table,
)
from orchgit.cli.printing.output_format import OutputFormat

_NONE = "<none>"
_SHOWN_EVENTS = 5
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class NodeStatusOptions(PageOptions):
    allocs: bool = option_field("allocs", is_flag=True, help="Count each node's allocations.")
    stats: bool = option_field("stats", is_flag=True, help="Show in detail what the node uses.")
    short: bool = option_field("short", is_flag=True, help="Without resources and events.")
    os: bool = option_field("os", is_flag=True, help="Show the operating systems.")
    quiet: bool = option_field("quiet", is_flag=True, help="Print only ids.")
    verbose: bool = option_field("verbose", is_flag=True, help="Show whole ids and more columns.")


@cli_command("status")
@id_argument("identifier", NODE, required=False)
@own_node_option
@options_of(NodeStatusOptions)
@ui_option
@formatted
@connected
def status(
    client: ApiClient,
    identifier: str | None,
    own: bool,
    options: NodeStatusOptions,
    output: OutputFormat,
) -> None:
    """All nodes, or one of them with its drivers, resources and allocations."""
    if own:
        identifier = own_node_id(client)
    if identifier:
        show_status(client, identifier, output, options)
        return
    found = options.get(client, "/v1/nodes", os="true" if options.os else None)
    if output.printed(found):
        return
    if options.quiet:
        for each in found:
            click.echo(each["ID"] if options.verbose else short(each["ID"]))
        return
    show_nodes(found, options, _running_counts(client, found) if options.allocs else {})


def show_nodes(
    found: list[dict[str, Any]], options: NodeStatusOptions, counts: dict[str, int]
) -> None:
    """Prints one line for each node."""
    verbose = options.verbose
    table(
        (
            *("ID", "Node Pool", "DC", "Name", "Class"),
            *(("OS",) if options.os else ()),
            *(("Address", "Version") if verbose else ()),
            *("Drain", "Eligibility", "Status"),
            *(("Running Allocs",) if options.allocs else ()),
        ),
        (
            [
                short(each["ID"], verbose),
                plain(each["NodePool"]),
                plain(each["Datacenter"]),
                plain(each["Name"]),
                plain(each["NodeClass"] or _NONE),
                *([plain((each.get("Attributes") or {}).get("os.name", ""))] * options.os),
                *([plain(each["Address"]), plain(each["Version"])] if verbose else ()),
                str(each["Drain"]).lower(),
                each["SchedulingEligibility"],
                styled(each["Status"]),
                *([counts[each["ID"]]] if options.allocs else ()),
            ]
            for each in found
        ),
        empty="No nodes registered",
    )


def _running_counts(client: ApiClient, nodes: list[dict[str, Any]]) -> dict[str, int]:
    running = client.get("/v1/allocations", namespace="*", filter='ClientStatus == "running"')
    counts = {each["ID"]: 0 for each in nodes}
    for each in running:
        counts[each["NodeID"]] = counts.get(each["NodeID"], 0) + 1
    return counts


def last_drain(data: dict[str, Any]) -> str:
    """Returns `canceled at 2027-01-15T08:00:00Z (message: new disks)`, or ""."""
    last = data.get("LastDrain")
    if not last:
        return ""
    meta = "; ".join(f"{key}: {value}" for key, value in sorted((last.get("Meta") or {}).items()))
    return f"{last['Status']} at {last['UpdatedAt']}" + (f" ({meta})" if meta else "")


def show_status(
    client: ApiClient, identifier: str, output: OutputFormat, options: NodeStatusOptions
) -> None:
    """Prints one node."""
    found = find_node(client, identifier)
    data = client.get(f"/v1/node/{found['ID']}")
    if output.printed(data):
        return
    if options.quiet:
        click.echo(data["ID"])
        return
    verbose = options.verbose
    stats = {} if options.short else _host_stats(client, data)
    pairs((*_facts(data, stats, options), ("Last Drain", plain(last_drain(data)))))
    allocations = client.get(f"/v1/node/{data['ID']}/allocations", namespace="*")
    if not options.short:
        if verbose:
            _show_volumes_and_drivers(data)
        _show_events(data, verbose)
        running = [each for each in allocations if each["ClientStatus"] == "running"]
        _show_resources(data, running, stats)
        if options.stats:
            _show_stats(stats)
    heading("Allocations")
    show_allocations(allocations, verbose)
    if verbose:
        heading("Attributes")
        pairs((name, plain(value)) for name, value in sorted(data["Attributes"].items()))
        heading("Meta")
        pairs((name, plain(value)) for name, value in sorted((data["Meta"] or {}).items()))


def _host_stats(client: ApiClient, data: dict[str, Any]) -> dict[str, Any]:
    """Returns what the node uses now; empty where its agent does not answer."""
    if data["Status"] != "ready":
        return {}
    try:
        return dict(client.get("/v1/client/stats", node_id=data["ID"]) or {})
    except ApiError:
        return {}


def _facts(
    data: dict[str, Any], stats: dict[str, Any], options: NodeStatusOptions
) -> Iterator[tuple[str, object]]:
    verbose = options.verbose
    drivers = {name: info for name, info in (data["Drivers"] or {}).items() if info["Detected"]}
    yield "ID", short(data["ID"], verbose)
    yield "Name", plain(data["Name"])
    yield "Node Pool", plain(data["NodePool"])
    yield "Class", plain(data["NodeClass"] or _NONE)
    yield "DC", plain(data["Datacenter"])
    yield "Drain", str(data["Drain"]).lower()
    yield "Eligibility", data["SchedulingEligibility"]
    yield "Status", styled(data["Status"])
    yield "CSI Controllers", ", ".join(sorted(data.get("CSIControllerPlugins") or {})) or _NONE
    yield "CSI Drivers", ", ".join(sorted(data.get("CSINodePlugins") or {})) or _NONE
    if stats:
        yield "Uptime", duration(int(stats.get("Uptime", 0)) * 1_000_000_000)
    if not verbose:
        yield "Host Volumes", plain(", ".join(sorted(data.get("HostVolumes") or {})) or _NONE)
        yield "Host Networks", plain(", ".join(sorted(data.get("HostNetworks") or {})) or _NONE)
        yield "CSI Volumes", _NONE
        if options.short:
            yield "Drivers", plain(", ".join(sorted(drivers)) or _NONE)
        else:
            states = (
                name if info["Healthy"] else f"{name} (unhealthy)"
                for name, info in sorted(drivers.items())
            )
            yield "Driver Status", plain(", ".join(states) or _NONE)


def _show_volumes_and_drivers(data: dict[str, Any]) -> None:
    volumes = data.get("HostVolumes") or {}
    if volumes:
        heading("Host Volumes")
        table(
            ("Name", "ReadOnly", "Source"),
            (
                (plain(name), str(each.get("ReadOnly", False)).lower(), plain(each["Path"]))
                for name, each in sorted(volumes.items())
            ),
        )
    heading("Drivers")
    table(
        ("Driver", "Detected", "Healthy", "Message", "Time"),
        (
            (
                plain(name),
                str(each["Detected"]).lower(),
                str(each["Healthy"]).lower(),
                plain(each.get("HealthDescription") or _NONE),
                each.get("UpdateTime") or "-",
            )
            for name, each in sorted((data["Drivers"] or {}).items())
        ),
        empty="No drivers",
    )


def _show_events(data: dict[str, Any], verbose: bool) -> None:
    events = (data.get("Events") or [])[::-1]
    heading("Node Events")
    more = ("Details",) if verbose else ()
    rows = []
    for each in events if verbose else events[:_SHOWN_EVENTS]:
        details = ", ".join(f"{key} = {value}" for key, value in (each["Details"] or {}).items())
        row = (each["Timestamp"], plain(each["Subsystem"]), plain(each["Message"]))
        rows.append((*row, *([plain(details or _NONE)] * bool(more))))
    table(("Time", "Subsystem", "Message", *more), rows, empty="No events")


def _show_resources(
    data: dict[str, Any], running: list[dict[str, Any]], stats: dict[str, Any]
) -> None:
    has, kept = data["NodeResources"], data.get("ReservedResources") or {}
    cpu = has["Cpu"]["CpuShares"] - (kept.get("Cpu") or {}).get("CpuShares", 0)
    memory = has["Memory"]["MemoryMB"] - (kept.get("Memory") or {}).get("MemoryMB", 0)
    disk = has["Disk"]["DiskMB"] - (kept.get("Disk") or {}).get("DiskMB", 0)
    used = {"cpu": 0, "memory": 0, "disk": 0}
    for each in running:
        resources = each.get("AllocatedResources") or {}
        used["disk"] += (resources.get("Shared") or {}).get("DiskMB", 0)
        for task in (resources.get("Tasks") or {}).values():
            used["cpu"] += task["Cpu"]["CpuShares"]
            used["memory"] += task["Memory"]["MemoryMB"]
    heading("Allocated Resources")
    table(
        ("CPU", "Memory", "Disk", "Alloc Count"),
        [
            (
                f"{used['cpu']}/{cpu} MHz",
                f"{amount(used['memory'] * _MIB)}/{amount(memory * _MIB)}",
                f"{amount(used['disk'] * _MIB)}/{amount(disk * _MIB)}",
                len(running),
            )
        ],
    )
    if not stats:
        return
    ticks, in_use = stats.get("CPUTicksConsumed", 0), stats.get("Memory") or {}
    disks = stats.get("DiskStats") or []
    heading("Allocation Resource Utilization")
    table(
        ("CPU", "Memory"),
        [(f"{ticks:.0f}/{cpu} MHz", f"{amount(in_use.get('Used', 0))}/{amount(memory * _MIB)}")],
    )
    heading("Host Resource Utilization")
    first = disks[0] if disks else {}
    table(
        ("CPU", "Memory", "Disk"),
        [
            (
                f"{ticks:.0f}/{has['Cpu']['CpuShares']} MHz",
                f"{amount(in_use.get('Used', 0))}/{amount(in_use.get('Total', 0))}",
                f"{amount(first.get('Used', 0))}/{amount(first.get('Size', 0))}",
            )
        ],
    )


def _show_stats(stats: dict[str, Any]) -> None:
    """Prints each processor and disk."""
    heading("Detailed CPU Stats")
    for each in stats.get("CPU") or []:
        pairs(
            (
                ("CPU", each["CPU"]),
                ("User", f"{each['User']:.2f}%"),
                ("System", f"{each['System']:.2f}%"),
                ("Idle", f"{each['Idle']:.2f}%"),
            )
        )
    heading("Memory Stats")
    memory = stats.get("Memory") or {}
    pairs((name, amount(memory.get(name, 0))) for name in ("Total", "Available", "Used", "Free"))
    heading("Disk Stats")
    for each in stats.get("DiskStats") or []:
        pairs(
            (
                ("Device", plain(each["Device"])),
                ("MountPoint", plain(each["Mountpoint"])),
                ("Size", amount(each["Size"])),
                ("Used", amount(each["Used"])),
                ("Available", amount(each["Available"])),
                ("Used Percent", f"{each['UsedPercent']:.2f}%"),
                ("Inodes Percent", f"{each['InodesUsedPercent']:.2f}%"),
            )
        )
