"""`orchgit alloc status` and `checks`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_command
from orchgit.cli.commands.alloc_find import find
from orchgit.cli.commands.blame import fetch_blame
from orchgit.cli.completion import ALLOCATION, id_argument
from orchgit.cli.options import (
    connected,
    formatted,
    option_field,
    options_of,
    ui_option,
    verbose_option,
)
from orchgit.cli.printing.output import (
    ago,
    amount,
    heading,
    moment,
    pairs,
    plain,
    short,
    styled,
    table,
)
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.host_port import join_host_port

_NONE = "<none>"
_SHOWN_EVENTS = 10
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class StatusOptions:
    short: bool = option_field("short", is_flag=True, help="Only names, states, last events.")
    stats: bool = option_field("stats", is_flag=True, help="Show in detail what the tasks use.")
    verbose: bool = option_field(
        "verbose", is_flag=True, help="Show whole ids, all events, and how the node was chosen."
    )


@cli_command("status")
@id_argument("identifier", ALLOCATION, required=False)
@options_of(StatusOptions)
@ui_option
@formatted
@connected
def status(
    client: ApiClient, identifier: str | None, options: StatusOptions, output: OutputFormat
) -> None:
    """One allocation with its tasks, ports and commit; or all of them."""
    if identifier:
        show_status(client, identifier, output, options)
        return
    if not output.is_text:
        output.printed(client.get("/v1/allocations"))
        return
    raise click.UsageError(
        "cannot tell which allocation: give its id, or -json or -t for all of them; `orchgit job "
        "allocs JOB` and `orchgit node status NODE` list those of a job or node"
    )


@cli_command("checks")
@id_argument("identifier", ALLOCATION)
@verbose_option
@formatted
@connected
def checks(client: ApiClient, identifier: str, verbose: bool, output: OutputFormat) -> None:
    """The health checks of an allocation's services."""
    found = find(client, identifier)
    data = client.get(f"/v1/client/allocation/{found['ID']}/checks")
    if output.printed(data):
        return
    if not data:
        click.echo("This allocation has no checks")
        return
    click.echo(f"Status of {len(data)} Nomad Service Checks")
    for each in data.values():
        click.echo()
        pairs(
            (
                ("ID", each["ID"] if verbose else short(each["ID"])),
                ("Name", plain(each["Check"])),
                ("Group", plain(each["Group"])),
                ("Task", plain(each.get("Task") or "(group)")),
                ("Service", plain(each["Service"])),
                ("Status", styled(each["Status"])),
                ("Mode", each["Mode"]),
                ("Timestamp", moment(each["Timestamp"] * 1_000_000_000)),
                ("Output", plain(each["Output"].strip()) or _NONE),
            )
        )


def show_table(allocations: list[dict[str, Any]], verbose: bool) -> None:
    more = ("Eval ID",) if verbose else ()
    name = ("Node Name",) if verbose else ()
    commit = ("Commit",) if any(each.get("CommitID") for each in allocations) else ()
    table(
        (
            *("ID", *more, "Node ID", *name, "Task Group", "Version", "Desired", "Status"),
            *("Created", "Modified", *commit),
        ),
        (
            (
                short(each["ID"], verbose),
                *([short(each["EvalID"], verbose)] * bool(more)),
                short(each["NodeID"], verbose),
                *([plain(each["NodeName"])] * bool(name)),
                plain(each["TaskGroup"]),
                _version(each),
                each["DesiredStatus"],
                styled(each["ClientStatus"]),
                ago(each["CreateTime"]),
                ago(each["ModifyTime"]),
                *([short(each.get("CommitID") or "-", verbose)] * bool(commit)),
            )
            for each in allocations
        ),
        empty="No allocations placed",
    )


def _version(data: dict[str, Any]) -> object:
    """Returns the version of the job; a whole allocation has it inside the job."""
    return data.get("JobVersion", (data.get("Job") or {}).get("Version", ""))


def show_status(
    client: ApiClient, identifier: str, output: OutputFormat, options: StatusOptions
) -> None:
    """Prints one allocation."""
    data = client.get(f"/v1/allocation/{find(client, identifier)['ID']}")
    if output.printed(data):
        return
    if options.short:
        _show_short(data)
        return
    verbose = options.verbose
    origin = fetch_blame(client, data["ID"]) if data.get("CommitID") else {}
    health = (data.get("DeploymentStatus") or {}).get("Healthy")
    metrics = data.get("Metrics") or {}
    pairs(
        (
            ("ID", short(data["ID"], verbose)),
            ("Eval ID", short(data["EvalID"], verbose)),
            ("Name", plain(data["Name"])),
            ("Node ID", short(data["NodeID"], verbose)),
            ("Node Name", plain(data["NodeName"])),
            ("Job ID", plain(data["JobID"])),
            ("Job Version", str(_version(data))),
            ("Client Status", styled(data["ClientStatus"])),
            ("Client Description", plain(data.get("ClientDescription") or _NONE)),
            ("Desired Status", data["DesiredStatus"]),
            ("Desired Description", plain(data.get("DesiredDescription") or _NONE)),
            ("Created", ago(data["CreateTime"])),
            ("Modified", ago(data["ModifyTime"])),
            ("Deployment ID", short(data.get("DeploymentID") or "", verbose)),
            ("Deployment Health", {True: "healthy", False: "unhealthy", None: ""}[health]),
            ("Replacement Alloc ID", short(data.get("NextAllocation") or "", verbose)),
            ("Commit", _commit_line(origin, verbose)),
            *(_metric_pairs(metrics) if verbose else ()),
        )
    )
    show_ports(data)
    _show_checks(client, data)
    usage = _usage(client, data)
    for task, state in sorted((data.get("TaskStates") or {}).items()):
        _show_task(data, task, state, (usage.get("Tasks") or {}).get(task) or {}, options)
    if verbose:
        _show_scores(metrics)


def _metric_pairs(metrics: dict[str, Any]) -> Iterator[tuple[str, object]]:
    yield "Evaluated Nodes", str(metrics.get("NodesEvaluated", 0))
    yield "Filtered Nodes", str(metrics.get("NodesFiltered", 0))
    yield "Exhausted Nodes", str(metrics.get("NodesExhausted", 0))
    yield "Allocation Time", f"{metrics.get('AllocationTime', 0) / 1000:g} us"
    yield "Failures", str(metrics.get("CoalescedFailures", 0))


def _show_short(data: dict[str, Any]) -> None:
    pairs(
        (
            ("ID", short(data["ID"])),
            ("Name", plain(data["Name"])),
            ("Created", ago(data["CreateTime"])),
            ("Modified", ago(data["ModifyTime"])),
        )
    )
    heading("Tasks")
    states = data.get("TaskStates") or {}
    tasks = {each["Name"]: each for each in _group_of(data).get("Tasks") or []}
    rows = []
    for name, state in sorted(states.items()):
        last = (state.get("Events") or [{}])[-1]
        hook = (tasks.get(name, {}).get("Lifecycle") or {}).get("Hook") or "main"
        rows.append(
            (
                plain(name),
                styled(state["State"]),
                plain(last.get("Type", "")),
                ago(last.get("Time")),
                hook,
            )
        )
    table(("Name", "State", "Last Event", "Time", "Lifecycle"), rows, empty="No tasks")


def _group_of(data: dict[str, Any]) -> dict[str, Any]:
    groups = (data.get("Job") or {}).get("TaskGroups") or []
    return next((each for each in groups if each["Name"] == data["TaskGroup"]), {})


def _commit_line(origin: dict[str, Any], verbose: bool) -> str:
    if not origin:
        return ""
    where = f"{origin['File']}:{origin['Line']}" if origin.get("File") else ""
    return plain(
        f"{short(origin['CommitID'], verbose)} {origin['Subject']} ({origin['Author']}) {where}"
    )


def show_ports(data: dict[str, Any]) -> None:
    """Prints the ports of the allocation's network with their addresses."""
    shared = (data.get("AllocatedResources") or {}).get("Shared") or {}
    ports = shared.get("Ports") or []
    if not ports:
        return
    networks = shared.get("Networks") or []
    mode = (networks[0].get("Mode") if networks else "") or "host"
    dynamic = {each["Label"] for network in networks for each in network.get("DynamicPorts") or []}
    heading(f'Allocation Addresses (mode = "{mode}"):')
    rows = []
    for port in ports:
        to = f" -> {port['To']}" if port.get("To") and port["To"] != port["Value"] else ""
        is_dynamic = "yes" if port["Label"] in dynamic else "no"
        address = f"{join_host_port(port['HostIP'], port['Value'])}{to}"
        rows.append((f"*{plain(port['Label'])}", is_dynamic, address))
    table(("Label", "Dynamic", "Address"), rows)


def _show_checks(client: ApiClient, data: dict[str, Any]) -> None:
    """Prints the checks' results, where the agent answers and there are some."""
    if data["ClientStatus"] != "running":
        return
    try:
        found = client.get(f"/v1/client/allocation/{data['ID']}/checks") or {}
    except ApiError:
        return
    if found:
        heading("Nomad Service Checks:")
        table(
            ("Service", "Task", "Name", "Mode", "Status"),
            (
                (
                    plain(each["Service"]),
                    plain(each.get("Task") or "(group)"),
                    plain(each["Check"]),
                    each["Mode"],
                    styled(each["Status"]),
                )
                for each in found.values()
            ),
        )


def _usage(client: ApiClient, data: dict[str, Any]) -> dict[str, Any]:
    """Returns what the allocation uses now; empty where that is not known."""
    if data["ClientStatus"] != "running":
        return {}
    try:
        return dict(client.get(f"/v1/client/allocation/{data['ID']}/stats") or {})
    except ApiError:
        return {}


def _show_task(
    data: dict[str, Any],
    name: str,
    state: dict[str, Any],
    usage: dict[str, Any],
    options: StatusOptions,
) -> None:
    heading(f'Task "{name}" is "{state["State"]}"')
    resources = (data.get("AllocatedResources") or {}).get("Tasks") or {}
    wanted = resources.get(name) or {}
    used = usage.get("ResourceUsage") or {}
    cpu, memory = used.get("CpuStats") or {}, used.get("MemoryStats") or {}
    cpu_text = f"{(wanted.get('Cpu') or {}).get('CpuShares', 0)} MHz"
    memory_text = f"{(wanted.get('Memory') or {}).get('MemoryMB', 0)} MiB"
    if used:
        cpu_text = f"{cpu.get('TotalTicks', 0):.0f}/{cpu_text}"
        memory_text = f"{amount(memory.get('RSS') or memory.get('Usage') or 0)}/{memory_text}"
    shared = (data.get("AllocatedResources") or {}).get("Shared") or {}
    addresses = ", ".join(
        f"{port['Label']}: {join_host_port(network['IP'], port['Value'])}"
        for network in wanted.get("Networks") or []
        for port in [*(network.get("ReservedPorts") or []), *(network.get("DynamicPorts") or [])]
    )
    click.echo("Task Resources:")
    table(
        ("CPU", "Memory", "Disk", "Addresses"),
        [(cpu_text, memory_text, f"{shared.get('DiskMB', 0)} MiB", plain(addresses))],
    )
    if options.stats and used:
        heading("Memory Stats")
        sizes = [(key, value) for key, value in memory.items() if isinstance(value, int)]
        table([key for key, _ in sizes], [[amount(value) for _, value in sizes]])
        heading("CPU Stats")
        table(
            ("Percent", "Throttled Periods", "Throttled Time"),
            [
                (
                    f"{cpu.get('Percent', 0):.2f}%",
                    cpu.get("ThrottledPeriods", 0),
                    cpu.get("ThrottledTime", 0),
                )
            ],
        )
    click.echo("\nTask Events:")
    pairs(
        (
            ("Started At", state.get("StartedAt") or "N/A"),
            ("Finished At", state.get("FinishedAt") or "N/A"),
            ("Total Restarts", str(state.get("Restarts", 0))),
            ("Last Restart", state.get("LastRestart") or "N/A"),
        )
    )
    click.echo("\nRecent Events:")
    events = state.get("Events") or []
    table(
        ("Time", "Type", "Description"),
        (
            (ago(event["Time"]), plain(event["Type"]), event_text(event))
            for event in reversed(events if options.verbose else events[-_SHOWN_EVENTS:])
        ),
        empty="No events",
    )


def event_text(event: dict[str, Any]) -> str:
    """Returns what a task's event says. That the kernel ended a task for its memory is in the
    details alone, as in Nomad's events."""
    text = plain(event["DisplayMessage"])
    if (event.get("Details") or {}).get("oom_killed") == "true":
        return f"{text} (out of memory: raise memory or memory_max)"
    return text


def _show_scores(metrics: dict[str, Any]) -> None:
    scored = metrics.get("ScoreMetaData") or []
    if not scored:
        return
    heading("Placement Metrics")
    names = sorted({name for each in scored for name in each.get("Scores") or {}})
    table(
        ("Node", *names, "final score"),
        (
            (
                each["NodeID"],
                *(f"{(each.get('Scores') or {}).get(name, 0):.3g}" for name in names),
                f"{each['NormScore']:.3g}",
            )
            for each in scored
        ),
    )
