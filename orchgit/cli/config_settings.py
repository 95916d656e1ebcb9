"""From the sections of a configuration file to the settings of a server and of an agent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from agent.config import GarbageConfig, HostVolumeConfig, ReservedConfig
from jobspec.durations import DurationError, parse_ns
from orchgit.cli.config_control import control_config, scheduler_config
from orchgit.cli.config_schema import (
    ClientSection,
    FileConfig,
    JoinSection,
    ServerSection,
    SourceSection,
)
from orchgit.cli.config_tls import tls_settings
from orchgit.errors import InvalidInputError
from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.fetch import GitCredential
from orchgit.model.source import PrunePolicy, Source
from orchgit.server.config import ServerConfig
from orchgit.server.joining_rules import JoinConfig, rpc_address_of


def server_settings(file: FileConfig) -> dict[str, Any]:
    sources = tuple(_source(name, section) for name, section in sorted(file.gitops.source.items()))
    settings: dict[str, Any] = {
        "name": file.name,
        "region": file.region,
        "datacenter": file.datacenter,
        "num_schedulers": file.server.num_schedulers,
        "control": control_config(file.server),
        "scheduler_config": scheduler_config(file.server),
        "join": _join(file.server),
        "leave_on_interrupt": file.leave_on_interrupt,
        "leave_on_terminate": file.leave_on_terminate,
        "http_advertise": file.advertise.http,
        "rpc_advertise": file.advertise.rpc,
        "raft_advertise": file.advertise.serf,
        **tls_settings(file.tls),
        "gitops": GitopsConfig(
            credentials={
                name: GitCredential(**msgspec.to_builtins(section))
                for name, section in file.gitops.credential.items()
            },
            webhook_secrets=file.gitops.webhook_secrets,
            local_paths=tuple(file.gitops.local_paths),
            sources=sources,
        ),
        "sources": sources,
    }
    if file.server.cluster_key_file:
        settings["cluster_key_file"] = Path(file.server.cluster_key_file)
    if file.server.enabled_schedulers is not None:
        settings["enabled_schedulers"] = tuple(file.server.enabled_schedulers)
    return settings


def _join(server: ServerSection) -> JoinConfig:
    own = JoinSection(
        retry_join=server.retry_join,
        start_join=server.start_join,
        retry_interval=server.retry_interval or JoinSection().retry_interval,
        retry_max=server.retry_max,
    )
    section = server.server_join or own
    if server.server_join and own != JoinSection():
        raise InvalidInputError(
            "cannot use the server section: it has server_join, so retry_join, start_join, "
            "retry_interval and retry_max belong into that"
        )
    interval_ns = _duration_ns("server_join.retry_interval", section.retry_interval)
    return JoinConfig(
        bootstrap_expect=server.bootstrap_expect,
        retry_join=tuple(section.retry_join),
        start_join=tuple(section.start_join),
        retry_interval_s=max(interval_ns / 1e9, 0.1),
        retry_max=section.retry_max,
    )


def with_join_options(
    config: ServerConfig,
    bootstrap_expect: int | None,
    retry_join: tuple[str, ...],
    start_join: tuple[str, ...],
) -> ServerConfig:
    """Options of the command line take the place of what the file says."""
    given: dict[str, Any] = {
        "bootstrap_expect": bootstrap_expect,
        "retry_join": retry_join or None,
        "start_join": start_join or None,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    return replace(config, join=replace(config.join, **changes)) if changes else config


def known_servers(client: ClientSection) -> tuple[str, ...]:
    """RPC addresses that an agent tries in turn, for ever."""
    join = client.server_join or JoinSection()
    named = (*client.servers, *join.retry_join, *join.start_join)
    return tuple(dict.fromkeys(rpc_address_of(one) for one in named))


def agent_settings(file: FileConfig) -> dict[str, Any]:
    client = file.client
    return {
        "region": file.region,
        "datacenter": file.datacenter,
        "node_pool": client.node_pool,
        "node_class": client.node_class,
        "meta": client.meta,
        "network_interface": client.network_interface,
        "host_volumes": {
            name: HostVolumeConfig(path=volume.path, read_only=volume.read_only)
            for name, volume in client.host_volume.items()
        },
        "reserved": ReservedConfig(
            cpu_mhz=client.reserved.cpu,
            memory_mb=client.reserved.memory,
            disk_mb=client.reserved.disk,
            reserved_ports=client.reserved.reserved_ports,
        ),
        "drivers": {name: section.config for name, section in file.plugin.items()},
        "garbage": GarbageConfig(
            max_allocs=client.gc_max_allocs,
            disk_usage_percent=client.gc_disk_usage_threshold,
            interval_s=_duration_ns("client.gc_interval", client.gc_interval) / 1e9,
        ),
        "max_kill_timeout_s": (
            _duration_ns("client.max_kill_timeout", client.max_kill_timeout) / 1e9
        ),
        **tls_settings(file.tls),
    }


def _source(name: str, section: SourceSection) -> Source:
    kind = section.kind or ("remote" if section.url else "builtin")
    source = Source(
        name=name,
        kind=kind,
        url=section.url,
        ref=section.ref,
        variables=section.variables,
        var_files=section.var_files,
        poll_interval_ns=_duration_ns(f"source.{name}.poll_interval", section.poll_interval),
        prune=PrunePolicy(enabled=section.prune),
        credential=section.credential,
        webhook_secret=section.webhook_secret,
        allow_rewind=section.allow_rewind,
        adopt=section.adopt,
        rollout_deadline_ns=_duration_ns(
            f"source.{name}.rollout_deadline", section.rollout_deadline or "0s"
        ),
    )
    if section.paths is not None:
        source.paths = section.paths
    return source


def _duration_ns(name: str, text: str) -> int:
    try:
        return parse_ns(text)
    except DurationError as error:
        raise InvalidInputError(f"cannot use {name}: {error}") from error
