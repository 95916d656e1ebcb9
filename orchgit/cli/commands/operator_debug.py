"""`orchgit operator debug`: collects what helps to find a fault, in one archive."""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from orchgit.cli.client.http_client import ApiClient, ApiError
from orchgit.cli.command import cli_command
from orchgit.cli.options import (
    connected,
    length,
    no_effect_option,
    option_field,
    options_of,
)
from orchgit.cli.printing.output import short
from orchgit.durations import parse_length_ns
from orchgit.errors import InvalidInputError

_CLUSTER = {
    "agent-self": "/v1/agent/self",
    "members": "/v1/agent/members",
    "leader": "/v1/status/leader",
    "peers": "/v1/status/peers",
    "regions": "/v1/regions",
    "autopilot-config": "/v1/operator/autopilot/configuration",
    "raft-config": "/v1/operator/raft/configuration",
    "scheduler-config": "/v1/operator/scheduler/configuration",
    "namespaces": "/v1/namespaces",
    "node-pools": "/v1/node/pools",
}
_EACH_INTERVAL = {
    "allocations": "/v1/allocations",
    "deployments": "/v1/deployments",
    "evaluations": "/v1/evaluations",
    "jobs": "/v1/jobs",
    "nodes": "/v1/nodes",
    "volumes": "/v1/volumes?type=host",
    "services": "/v1/services",
    "rollouts": "/v1/gitops/rollouts",
    "sources": "/v1/gitops/sources",
    "metrics": "/v1/metrics",
}
_PROFILES = ("goroutine", "heap")
_MAX_LOG_BYTES = 64 << 20
_FOREIGN = (
    *("consul-http-addr", "consul-token", "consul-token-file", "consul-client-cert"),
    *("consul-client-key", "consul-ca-cert", "consul-ca-path"),
    *("vault-address", "vault-token", "vault-client-cert", "vault-client-key"),
    *("vault-ca-cert", "vault-ca-path"),
)


@dataclass(frozen=True, slots=True)
class DebugOptions:
    duration: str = option_field(
        "duration", type=length, default="2m", help="How long logs and events are followed."
    )
    interval: str = option_field(
        "interval", type=length, default="30s", help="How often the state is taken meanwhile."
    )
    log_level: str = option_field("log-level", default="DEBUG", help="Which entries of the logs.")
    log_include_location: bool = option_field(
        "log-include-location", is_flag=True, help="With the file and line of each entry."
    )
    log_file_export: bool = option_field(
        "log-file-export", is_flag=True, help="Also what is in the agents' log files."
    )
    log_lookback: str | None = option_field(
        "log-lookback", type=length, help="Also what the journal has of so long ago."
    )
    max_nodes: int = option_field("max-nodes", type=int, default=10, help="At most so many nodes.")
    node_id: str = option_field(
        "node-id", default="all", help="Which nodes: ids separated by commas, or all."
    )
    node_class: str | None = option_field("node-class", help="Only nodes of this class.")
    server_id: str = option_field(
        "server-id", default="all", help="Which servers: names separated by commas, or all."
    )
    pprof_duration: str = option_field(
        "pprof-duration", type=length, default="1s", help="How long a profile is taken."
    )
    pprof_interval: str | None = option_field(
        "pprof-interval", type=length, help="Take profiles every so long; once if not given."
    )
    event_index: int | None = option_field(
        "event-index", type=int, help="Begin with the events after this index."
    )
    event_topic: tuple[str, ...] = option_field(
        "event-topic", multiple=True, help="Topic:Key of events to collect, or none; repeatable."
    )
    stale: bool = option_field("stale", is_flag=True, help="Ask servers without a leader too.")
    output: str | None = option_field(
        "output", help="Write files into this directory instead of an archive here."
    )
    verbose: bool = option_field("verbose", is_flag=True, help="Show whole ids.")


def _no_effect(command: Any) -> Any:
    for name in _FOREIGN:
        command = no_effect_option(name, "servers here know no Consul and no Vault")(command)
    return command


@cli_command("debug")
@options_of(DebugOptions)
@_no_effect
@connected
def debug(client: ApiClient, options: DebugOptions) -> None:
    """Collect the state, logs, events, metrics and profiles of the cluster for a while.

    What servers keep secret is not in it; job files are, and what their authors wrote there.
    """
    name = f"orchgit-debug-{time.strftime('%Y-%m-%d-%H%M%SZ', time.gmtime())}"
    params = {"stale": "true"} if options.stale else {}
    # The first answer tells whether somebody is there at all.
    servers = [each["Name"] for each in client.get("/v1/agent/members", **params)["Members"]]
    if options.server_id != "all":
        servers = [each for each in servers if each in options.server_id.split(",")]
    nodes = _chosen_nodes(client, options, params)
    target = _made(options.output, name)
    shown = [each if options.verbose else short(each) for each in nodes]
    click.echo(f"==> Servers ({len(servers)}): {', '.join(servers)}")
    click.echo(f"==> Nodes ({len(nodes)}): {', '.join(shown)}")
    capture = _Capture(client, params)
    for file, path in _CLUSTER.items():
        capture.json(f"cluster/{file}.json", path)
    targets = [("server", "server_id", each) for each in servers]
    targets += [("client", "node_id", each) for each in nodes]
    for kind, parameter, each in targets:
        capture.json(f"{kind}/{each}/agent-host.json", "/v1/agent/host", **{parameter: each})
    try:
        _collect(capture, options, targets)
    except KeyboardInterrupt:
        click.echo("==> Interrupted: what was collected until now is written")
    index = {"Name": name, "Errors": capture.errors, "Files": sorted(capture.files)}
    capture.files["index.json"] = json.dumps(index, indent=4).encode()
    _write(capture, target, name)
    click.echo(f"==> {len(capture.files)} files are in {target}")
    if capture.errors:
        click.echo(
            f"    {len(capture.errors)} could not be collected: index.json says why", err=True
        )


def _chosen_nodes(client: ApiClient, options: DebugOptions, params: dict[str, str]) -> list[str]:
    """Returns the ids of the wanted nodes, those first that can be asked."""
    found = client.get("/v1/nodes", **params)
    if options.node_class:
        found = [each for each in found if each["NodeClass"] == options.node_class]
    if options.node_id != "all":
        prefixes = tuple(options.node_id.split(","))
        found = [each for each in found if each["ID"].startswith(prefixes)]
    most = options.max_nodes if options.max_nodes > 0 else len(found)
    found.sort(key=lambda each: each["Status"] != "ready")
    return [each["ID"] for each in found][:most]


def _collect(capture: _Capture, options: DebugOptions, targets: list[tuple[str, str, str]]) -> None:
    """Follows logs and events, and takes the state again and again, until the time is over."""
    duration_s, interval_s, profile_s = (
        parse_length_ns(text) / 1e9
        for text in (options.duration, options.interval, options.pprof_duration)
    )
    if interval_s <= 0:
        raise InvalidInputError("cannot take the state every 0s: give a longer -interval")
    ends_s = time.monotonic() + duration_s
    logs = {
        "log_level": options.log_level,
        "log_include_location": "true" if options.log_include_location else None,
    }
    for kind, parameter, each in targets:
        capture.follow(
            f"{kind}/{each}/monitor.log", "/v1/agent/monitor", **logs, **{parameter: each}
        )
        for wanted, file, asked in (
            (options.log_file_export, "log-file.log", {"on_disk": "true"}),
            (
                options.log_lookback,
                "journal.log",
                {"service_name": "orchgit", "logs_since": options.log_lookback},
            ),
        ):
            if wanted:
                path = "/v1/agent/monitor/export"
                capture.follow(f"{kind}/{each}/{file}", path, **asked, **{parameter: each})
    if options.event_topic != ("none",):
        topics = list(options.event_topic) or ["*"]
        capture.follow(
            "cluster/events.json", "/v1/event/stream", topic=topics, index=options.event_index
        )
    round_number = 0
    with click.progressbar(length=max(1, round(duration_s)), label="    Collecting") as bar:
        while True:
            for file, path in _EACH_INTERVAL.items():
                capture.json(f"interval/{round_number:04}/{file}.json", path, namespace="*")
            if not round_number or options.pprof_interval:
                for kind, parameter, each in targets:
                    for profile in _PROFILES:
                        capture.text(
                            f"{kind}/{each}/{profile}-{round_number:04}.prof",
                            f"/v1/agent/pprof/{profile}",
                            seconds=max(1, round(profile_s)),
                            **{parameter: each},
                        )
            round_number += 1
            wait_s = min(interval_s, ends_s - time.monotonic())
            if wait_s <= 0:
                break
            capture.wait(wait_s)
            bar.update(round(wait_s))


@dataclass
class _Capture:
    """The files of the archive, and what could not be had. Threads add to it."""

    client: ApiClient
    params: dict[str, str]
    files: dict[str, bytes] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)

    def json(self, file: str, path: str, **params: Any) -> None:
        with self._noted(file):
            found = self.client.get(path, **{**self.params, **params})
            self.files[file] = json.dumps(found, indent=2).encode()

    def text(self, file: str, path: str, **params: Any) -> None:
        with self._noted(file):
            self.files[file] = self.client.get_text(path, **{**self.params, **params}).encode()

    def follow(self, file: str, path: str, **params: Any) -> None:
        """Collects a stream in a thread of its own, as long as this program runs."""

        def collect() -> None:
            pieces = io.BytesIO()
            with self._noted(file):
                for data in self.client.stream_bytes(path, **params):
                    if pieces.tell() < _MAX_LOG_BYTES:
                        pieces.write(data)
                        self.files[file] = pieces.getvalue()

        threading.Thread(target=collect, daemon=True, name=f"debug {file}").start()

    def wait(self, seconds: float) -> None:
        self.over.wait(seconds)

    @contextlib.contextmanager
    def _noted(self, file: str) -> Iterator[None]:
        try:
            yield
        except (ApiError, LookupError, TypeError, ValueError) as error:
            self.errors[file] = str(error)


def _made(directory: str | None, name: str) -> Path:
    """Returns the directory or the archive to write, made before anything is collected, so that a
    place that cannot be written is told at once."""
    target = Path(f"{name}.tar.gz") if directory is None else Path(directory) / name
    try:
        if directory is None:
            target.touch(exist_ok=False)
        else:
            target.mkdir(parents=True)
    except OSError as error:
        raise _unwritable(target, error) from error
    return target


def _write(capture: _Capture, target: Path, name: str) -> None:
    try:
        if target.is_dir():
            for file, data in list(capture.files.items()):
                path = target / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            return
        with tarfile.open(target, "w:gz") as archive:
            for file, data in list(capture.files.items()):
                member = tarfile.TarInfo(f"{name}/{file}")
                member.size, member.mode, member.mtime = len(data), 0o600, int(time.time())
                archive.addfile(member, io.BytesIO(data))
    except OSError as error:
        raise _unwritable(target, error) from error


def _unwritable(target: Path, error: OSError) -> InvalidInputError:
    return InvalidInputError(
        f"cannot write {target}: {error.strerror}; name another directory by -output"
    )
