"""`orchgit simulate`: thousands of simulated nodes on real servers, and what those cost them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from agent.simulated.processes import SimulatedFigures, SimulatedProcesses
from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_command
from orchgit.cli.options import connected, formatted, length, option_field, options_of
from orchgit.cli.printing.output_format import OutputFormat
from orchgit.durations import parse_length_ns
from orchgit.model.base import NS_PER_S
from orchgit.wire.tls import TlsFiles

_LOOK_S, _TELL_S = 0.5, 5.0
_LONGEST_S = 600.0
_ALLOCATIONS_PER_JOB = 10_000
_JOB = "simulate-"
_OURS = 'Name matches "^sim-[0-9]+$"'
_MISSED = "nomad.nomad.heartbeat.invalidate"
_CPU, _MEMORY = "nomad.runtime.cpu_seconds", "nomad.runtime.max_rss_bytes"


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    server: tuple[str, ...] = option_field(
        "server", multiple=True, help="host:port of a server's RPC [the leader's]; may be repeated."
    )
    nodes: int = option_field(
        "nodes", type=click.IntRange(1, 100_000), default=100, help="How many nodes [100]."
    )
    processes: int = option_field(
        "processes", type=click.IntRange(1, 64), default=4, help="In how many processes [4]."
    )
    datacenter: tuple[str, ...] = option_field(
        "datacenter", multiple=True, help="Their datacenter [dc1]; may be repeated."
    )
    duration: str = option_field(
        "duration", type=length, default="5m", help="How long to watch heartbeats [5m]."
    )
    place: int = option_field(
        "place",
        type=click.IntRange(0, 1_000_000),
        default=0,
        help="Place so many allocations on the nodes first, and remove them at the end.",
    )
    rpc_tls: tuple[Path, Path, Path] | None = option_field(
        "rpc-tls",
        nargs=3,
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        metavar="CA CERT KEY",
        help="Files for servers whose RPC wants certificates.",
    )


@cli_command("simulate")
@options_of(SimulateOptions)
@formatted
@connected
def simulate(client: ApiClient, options: SimulateOptions, output: OutputFormat) -> None:
    """Connect many simulated nodes to servers, watch their heartbeats, and print what it cost.

    The nodes speak the agents' protocol, and have the drivers by name only: a task does what the
    configuration of the mock driver says, or else runs until it is stopped. Use a cluster that is
    there for trials: its nodes, called sim-0, sim-1 ..., are down at the end, and are forgotten by
    `orchgit system gc`.
    """
    leader = client.get("/v1/status/leader")
    processes = SimulatedProcesses(
        options.server or (leader,),
        options.nodes,
        min(options.processes, options.nodes),
        options.datacenter or ("dc1",),
        TlsFiles(*options.rpc_tls) if options.rpc_tls else None,
    )
    if left := [node for node in client.get("/v1/nodes", filter=_OURS) if node["Status"] != "down"]:
        raise ApiError(
            f"cannot simulate: {len(left)} simulated nodes of another run are not down yet; wait "
            "until they are"
        )
    trial = _Trial(client, processes, options, output.is_text)
    with processes:
        try:
            found = trial.run()
        finally:
            trial.remove_jobs()
    if not output.printed(found):
        for name, value in found.items():
            click.echo(f"{name:28} = {value}")
    if found["MissedHeartbeats"] or found["LostConnections"]:
        raise ApiError(
            f"{found['MissedHeartbeats']} nodes missed heartbeats and {found['LostConnections']} "
            "connections were lost: the servers, or this machine, cannot keep up"
        )


@dataclass(frozen=True, slots=True)
class _Trial:
    """One run of `orchgit simulate` while its processes run."""

    client: ApiClient
    processes: SimulatedProcesses
    options: SimulateOptions
    tells: bool

    def run(self) -> dict[str, Any]:
        count = self.options.nodes
        connected_s = self._until("nodes are connected", lambda now: now.connected, count)
        before, losses = self._server(), self.processes.figures().losses
        found: dict[str, Any] = {
            "Nodes": count,
            "ConnectSeconds": connected_s,
            "ConnectRetries": losses,
        }
        if self.options.place:
            found |= self._place()
        began_s, server, own = time.monotonic(), self._server(), self.processes.figures()
        self._watch()
        spent_s, now, figures = time.monotonic() - began_s, self._server(), self.processes.figures()
        return found | {
            "WatchedSeconds": round(spent_s, 1),
            "MissedHeartbeats": round(now.get(_MISSED, 0) - before.get(_MISSED, 0)),
            "LostConnections": figures.losses - losses,
            "ServerCPUShare": round((now[_CPU] - server[_CPU]) / spent_s, 3),
            "ServerMostMemoryMiB": round(now[_MEMORY] / 2**20),
            "SimulatorCPUShare": round((figures.cpu_s - own.cpu_s) / spent_s, 3),
            "SimulatorMemoryMiB": round(figures.rss_bytes / 2**20),
        }

    def _server(self) -> dict[str, float]:
        """Returns the server's own counts, by the names of its metrics."""
        metrics = self.client.get("/v1/metrics")
        counts = {each["Name"]: each["Count"] for each in metrics["Counters"]}
        return counts | {each["Name"]: each["Value"] for each in metrics["Gauges"]}

    def _place(self) -> dict[str, Any]:
        count = self.options.place
        began_s = time.monotonic()
        for number, first in enumerate(range(0, count, _ALLOCATIONS_PER_JOB)):
            self.client.put("/v1/jobs", _job(number, min(_ALLOCATIONS_PER_JOB, count - first)))

        def placed(_: SimulatedFigures) -> int:
            jobs = self.client.get("/v1/jobs", prefix=_JOB)
            counts = [each["JobSummary"]["Summary"].get("main", {}) for each in jobs]
            return sum(each.get("Starting", 0) + each.get("Running", 0) for each in counts)

        placed_s = self._until("allocations are placed", placed, count)
        self._until("allocations run", lambda now: now.running, count)
        return {
            "Allocations": count,
            "PlaceSeconds": placed_s,
            "RunningSeconds": round(time.monotonic() - began_s, 2),
        }

    def _watch(self) -> None:
        left_s = parse_length_ns(self.options.duration) / NS_PER_S
        until_s = time.monotonic() + left_s
        while (left_s := until_s - time.monotonic()) > 0:
            self.processes.figures()  # which tells of a process that ended
            time.sleep(min(_LOOK_S, left_s))

    def _until(self, what: str, reached: Callable[[SimulatedFigures], int], wanted: int) -> float:
        """Returns the seconds until `reached` is what is wanted."""
        began_s = told_s = time.monotonic()
        while (now := reached(self.processes.figures())) < wanted:
            if self.tells and time.monotonic() - told_s > _TELL_S:
                click.echo(f"{now} of {wanted} {what}...", err=True)
                told_s = time.monotonic()
            if time.monotonic() - began_s > _LONGEST_S:
                raise ApiError(
                    f"cannot go on: after {_LONGEST_S:g} s, {now} of {wanted} {what}; the log of "
                    "the servers may say why"
                )
            time.sleep(_LOOK_S)
        return round(time.monotonic() - began_s, 2)

    def remove_jobs(self) -> None:
        for number in range(-(-self.options.place // _ALLOCATIONS_PER_JOB)):
            try:
                self.client.delete(f"/v1/job/{_JOB}{number}", purge="true")
            except ApiError as error:
                click.echo(str(error), err=True)


def _job(number: int, count: int) -> dict[str, Any]:
    """Returns a job of `count` tasks that run until they are stopped, on simulated nodes only."""
    task = {
        "Name": "main",
        "Driver": "mock_driver",
        "Resources": {"CPU": 10, "MemoryMB": 10},
        "LogConfig": {"MaxFiles": 1, "MaxFileSizeMB": 1},
    }
    group = {"Name": "main", "Count": count, "Tasks": [task], "EphemeralDisk": {"SizeMB": 10}}
    only = {"LTarget": "${meta.simulated}", "RTarget": "true", "Operand": "="}
    name = f"{_JOB}{number}"
    job = {"ID": name, "Name": name, "Type": "batch", "Datacenters": ["*"]}
    return {"Job": {**job, "Constraints": [only], "TaskGroups": [group]}}
