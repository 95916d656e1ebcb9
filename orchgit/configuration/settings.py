"""Turns the sections of a configuration file into the settings of a server and of an agent."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from agent.config import (
    ConsulConfig,
    GarbageConfig,
    HostNetworkConfig,
    HostVolumeConfig,
    MeasuredConfig,
    ReservedConfig,
)
from agent.drivers.registry import NOMADS_NAMES
from agent.http_json import HttpService
from agent.networks.config import GroupNetworkConfig
from agent.vault.tokens import VaultConfig
from orchgit.configuration.addresses import is_ip_address
from orchgit.configuration.artifacts import artifact_limits
from orchgit.configuration.audit import audit_settings
from orchgit.configuration.control import control_config, scheduler_config
from orchgit.configuration.faults import Faults
from orchgit.configuration.gitops import (
    gitops_limits,
    source_certificates,
    transport_config,
)
from orchgit.configuration.schema import (
    AclSection,
    AutopilotSection,
    ClientSection,
    ConsulSection,
    FileConfig,
    GatesSection,
    GitopsSection,
    JoinSection,
    LimitsSection,
    Ports,
    ServerSection,
    SourceSection,
    VaultSection,
)
from orchgit.configuration.server_parts import introduction_settings, push_settings, search_limits
from orchgit.configuration.templates import template_settings
from orchgit.configuration.tls import tls_settings
from orchgit.durations import parse_setting_ns
from orchgit.errors import InvalidInputError
from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.git.credentials import GitCredential
from orchgit.log_file import LogRotation
from orchgit.metrics.push import PushSettings
from orchgit.metrics.settings import MetricFilter, TelemetrySettings
from orchgit.model.gates import GatePolicy
from orchgit.model.operator import AutopilotConfig
from orchgit.model.source import DriftPolicy, PrunePolicy, Source, TagPolicy
from orchgit.model.window_text import parse_window
from orchgit.server.config import ServerConfig
from orchgit.server.membership.joining_rules import JoinConfig, rpc_address_of
from orchgit.server.tracing import TraceSettings
from orchgit.services.acl.settings import AclSettings
from orchgit.services.gitops.sources import check_source
from orchgit.services.jobs.admission import JobSettings
from orchgit.wire.limits import Limits


def server_settings(file: FileConfig, faults: Faults) -> dict[str, Any]:
    """Returns the keyword arguments of ServerConfig; what cannot be used is noted in `faults`."""
    made = faults.made
    made("log_rotate_duration", log_rotation, file)
    _check_together(file, faults)
    found = (
        made(f"gitops.source.{name}", _source, name, section)
        for name, section in sorted(file.gitops.source.items())
    )
    sources = tuple(source for source in found if source is not None)
    settings: dict[str, Any] = {
        "name": file.name,
        "region": file.region,
        "datacenter": file.datacenter,
        "num_schedulers": file.server.num_schedulers,
        "job_settings": JobSettings(
            file.server.job_max_count,
            file.server.job_max_priority,
            frozenset(name for name, one in file.vault.items() if one.enabled),
        ),
        "search": made("server.search", search_limits, file.server.search),
        "ui_enabled": file.ui.enabled,
        "ui_label": file.ui.label.text,
        "introductions": made("server.client_introduction", introduction_settings, file),
        "control": made("server", control_config, file.server),
        "scheduler_config": made("server.default_scheduler_config", scheduler_config, file.server),
        "autopilot_config": made("autopilot", _autopilot, file.autopilot),
        "join": made("server.server_join", _join, file.server, file.ports),
        "oidc_issuer": file.server.oidc_issuer.rstrip("/"),
        "leave_on_interrupt": file.leave_on_interrupt,
        "leave_on_terminate": file.leave_on_terminate,
        "http_advertise": file.advertise.http,
        "rpc_advertise": file.advertise.rpc,
        "raft_advertise": file.advertise.serf,
        **http_settings(file, faults),
        "acl": made("acl", _acl, file.acl),
        "traces": made(
            "telemetry.otlp_endpoint",
            TraceSettings,
            file.telemetry.otlp_endpoint,
            file.telemetry.otlp_headers,
        )
        if file.telemetry.otlp_endpoint
        else None,
        "audit": made("audit", audit_settings, file.audit),
        "gitops": made("gitops", _gitops, file.gitops, sources, faults),
        "sources": sources,
    }
    if file.server.cluster_key_file:
        settings["cluster_key_file"] = Path(file.server.cluster_key_file)
    if file.server.enabled_schedulers:  # an empty list is the default, as in Nomad
        settings["enabled_schedulers"] = tuple(file.server.enabled_schedulers)
    return settings


def _gitops(section: GitopsSection, sources: tuple[Source, ...], faults: Faults) -> GitopsConfig:
    credentials: dict[str, GitCredential] = {}
    for name, one in section.credential.items():
        credential = GitCredential(**msgspec.to_builtins(one))
        path = f"gitops.credential.{name}"
        if one.origin:
            faults.made(path, credential.check, name)
            credentials[name] = credential
        else:
            faults.add(path, f"cannot use {path}: it needs an origin, as https://host")
    git_limits, parse_limits = gitops_limits(section.limits)
    return GitopsConfig(
        credentials=credentials,
        limits=git_limits,
        parsing=parse_limits,
        transport=transport_config(section),
        webhook_secrets=section.webhook_secrets,
        local_paths=tuple(section.local_paths),
        sources=sources,
    )


def _acl(section: AclSection) -> AclSettings:
    least_ns, most_ns = (
        parse_setting_ns(f"acl.{name}", getattr(section, name))
        for name in ("token_min_expiration_ttl", "token_max_expiration_ttl")
    )
    if least_ns > most_ns:
        raise InvalidInputError(
            "cannot use acl.token_min_expiration_ttl: it is more than "
            f"token_max_expiration_ttl ({section.token_max_expiration_ttl})"
        )
    return AclSettings(section.enabled, least_ns, most_ns)


def _check_together(file: FileConfig, faults: Faults) -> None:
    """Notes values that cannot work together, each by itself as it should be."""
    client = file.client
    if client.min_dynamic_port > client.max_dynamic_port:
        faults.add(
            "client.max_dynamic_port",
            f"cannot use client.max_dynamic_port: {client.max_dynamic_port} is less than "
            f"min_dynamic_port ({client.min_dynamic_port})",
        )
    ports = {"http": file.ports.http, "rpc": file.ports.rpc, "serf": file.ports.serf}
    for one, other in (("http", "rpc"), ("http", "serf"), ("rpc", "serf")):
        hosts = [
            set((getattr(file.addresses, name) or file.bind_addr).split()) for name in (one, other)
        ]
        if ports[one] and ports[one] == ports[other] and hosts[0] & hosts[1]:
            faults.add(
                f"ports.{other}",
                f"cannot use ports.{other}: ports.{one} is {ports[one]} too, on the same address",
            )
    for name, volume in client.host_volume.items():
        path = f"client.host_volume.{name}"
        if not volume.path:
            faults.add(path, f"cannot use {path}: it needs a path, a directory of this machine")


def _autopilot(section: AutopilotSection | None) -> AutopilotConfig | None:
    """Returns the settings that a new cluster begins with; None for the defaults."""
    if section is None:
        return None
    return AutopilotConfig(
        cleanup_dead_servers=section.cleanup_dead_servers,
        last_contact_threshold_ns=parse_setting_ns(
            "autopilot.last_contact_threshold", section.last_contact_threshold
        ),
        max_trailing_logs=section.max_trailing_logs,
        min_quorum=section.min_quorum,
        server_stabilization_time_ns=parse_setting_ns(
            "autopilot.server_stabilization_time", section.server_stabilization_time
        ),
    )


def log_rotation(file: FileConfig) -> LogRotation:
    """Returns when the log file is put away. Raises InvalidInputError."""
    age_ns = parse_setting_ns("log_rotate_duration", file.log_rotate_duration or "0s")
    if file.log_rotate_bytes < 0 or file.log_rotate_max_files < 0 or age_ns < 0:
        raise InvalidInputError(
            "cannot use log_rotate_bytes, log_rotate_duration and log_rotate_max_files: they must "
            "not be negative"
        )
    return LogRotation(file.log_rotate_bytes, age_ns / 1e9, file.log_rotate_max_files)


def http_settings(file: FileConfig, faults: Faults) -> dict[str, Any]:
    """Returns the settings that servers and agents have in common: certificates, names, limits,
    metrics."""
    section = file.limits
    limits = Limits(
        http_max_conns_per_client=section.http_max_conns_per_client,
        https_handshake_timeout_s=_seconds(section, "https_handshake_timeout"),
        rpc_handshake_timeout_s=_seconds(section, "rpc_handshake_timeout"),
        rpc_max_conns_per_client=section.rpc_max_conns_per_client,
    )
    return {
        **(faults.made("tls", tls_settings, file.tls) or {}),
        "insecure_http": file.insecure_http,
        "http_allowed_hosts": tuple(file.http_allowed_hosts),
        "http_response_headers": file.http_api_response_headers,
        "limits": limits,
        "telemetry": TelemetrySettings(
            allocation_metrics=file.telemetry.publish_allocation_metrics,
            node_metrics=file.telemetry.publish_node_metrics,
            prometheus=file.telemetry.prometheus_metrics,
            dispatched_summaries=not file.telemetry.disable_dispatched_job_summary_metrics,
            quotas=not file.telemetry.disable_quota_utilization_metrics,
            hooks=not file.telemetry.disable_allocation_hook_metrics,
            filter=MetricFilter(tuple(file.telemetry.prefix_filter), file.telemetry.filter_default),
            push=faults.made("telemetry", push_settings, file.telemetry) or PushSettings(),
        ),
    }


def _seconds(section: LimitsSection, name: str) -> float:
    return parse_setting_ns(f"limits.{name}", getattr(section, name)) / 1e9


def _join(server: ServerSection, ports: Ports) -> JoinConfig:
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
    interval_ns = parse_setting_ns("server_join.retry_interval", section.retry_interval)
    return JoinConfig(
        bootstrap_expect=server.bootstrap_expect,
        retry_join=tuple(_with_rpc_port(one, ports) for one in section.retry_join),
        start_join=tuple(_with_rpc_port(one, ports) for one in section.start_join),
        retry_interval_s=max(interval_ns / 1e9, 0.1),
        retry_max=section.retry_max,
    )


def _with_rpc_port(address: str, ports: Ports) -> str:
    """Returns the address with the port of RPC where it has that of gossip, which Nomad's servers
    are joined at; servers of a cluster have the same ports, as a rule."""
    host, colon, port = address.strip().rpartition(":")
    if not colon or port != str(ports.serf) or is_ip_address(address.strip()):
        return address
    return f"{host}:{ports.rpc}"


def with_join_options(
    config: ServerConfig,
    bootstrap_expect: int | None,
    retry_join: tuple[str, ...],
    start_join: tuple[str, ...],
) -> ServerConfig:
    """Returns the config with the command line's options in the place of the file's."""
    given: dict[str, Any] = {
        "bootstrap_expect": bootstrap_expect,
        "retry_join": retry_join or None,
        "start_join": start_join or None,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    return replace(config, join=replace(config.join, **changes)) if changes else config


def known_servers(client: ClientSection) -> tuple[str, ...]:
    """Returns the RPC addresses that an agent tries in turn, for ever."""
    join = client.server_join or JoinSection()
    named = (*client.servers, *join.retry_join, *join.start_join)
    return tuple(dict.fromkeys(rpc_address_of(one) for one in named))


def _consul(sections: Mapping[str, ConsulSection]) -> ConsulConfig | None:
    """The agent of the default cluster: a node registers services at one."""
    section = sections.get("default")
    if section is None:
        return None
    address, headers = section.address, {}
    if "://" not in address:
        address = f"{'https' if section.ssl else 'http'}://{address}"
    if section.token:
        headers["X-Consul-Token"] = section.token
    if section.auth:
        encoded = base64.b64encode(section.auth.encode()).decode()
        headers["Authorization"] = f"Basic {encoded}"
    return ConsulConfig(
        service=HttpService(
            url=address,
            headers=headers,
            ca_file=section.ca_file,
            cert_file=section.cert_file,
            key_file=section.key_file,
            verify=section.verify_ssl,
        ),
        namespace=section.namespace,
    )


def _vault(sections: Mapping[str, VaultSection]) -> VaultConfig | None:
    """The Vault of the default cluster, where it is not switched off."""
    section = sections.get("default")
    if section is None or not section.enabled:
        return None
    return VaultConfig(
        service=HttpService(
            url=section.address,
            ca_file=section.ca_file,
            cert_file=section.cert_file,
            key_file=section.key_file,
            verify=not section.tls_skip_verify,
            server_name=section.tls_server_name,
        ),
        namespace=section.namespace,
        auth_path=section.jwt_auth_backend_path.strip("/"),
        role=section.create_from_role,
    )


def _group_networks(client: ClientSection) -> GroupNetworkConfig:
    """An empty value is the default, as in Nomad."""
    default = GroupNetworkConfig()
    return GroupNetworkConfig(
        cni_path=client.cni_path or default.cni_path,
        cni_config_dir=Path(client.cni_config_dir or default.cni_config_dir),
        bridge_name=client.bridge_network_name or default.bridge_name,
        bridge_subnet=client.bridge_network_subnet or default.bridge_subnet,
        bridge_subnet_ipv6=client.bridge_network_subnet_ipv6,
        hairpin_mode=client.bridge_network_hairpin_mode,
        bind_wildcard=client.bind_wildcard_default_host_network and not client.host_network,
    )


def agent_settings(file: FileConfig, faults: Faults) -> dict[str, Any]:
    """Returns the keyword arguments of AgentConfig; what cannot be used is noted in `faults`."""
    client, made = file.client, faults.made
    settings: dict[str, Any] = {
        "region": file.region,
        "datacenter": file.datacenter,
        "node_pool": client.node_pool or "default",
        "node_class": client.node_class,
        "meta": client.meta,
        "network_interface": client.network_interface,
        "network_speed_mbits": client.network_speed,
        "preferred_address_family": client.preferred_address_family,
        "driver_allowlist": _names(client.options.get("driver.allowlist", "")),
        "driver_denylist": _names(client.options.get("driver.denylist", "")),
        "default_ineligible": client.default_ineligible,
        "disable_remote_exec": client.disable_remote_exec,
        "host_volume_plugin_dir": (
            Path(client.host_volume_plugin_dir) if client.host_volume_plugin_dir else None
        ),
        "host_volumes": {
            name: HostVolumeConfig(path=volume.path, read_only=volume.read_only)
            for name, volume in client.host_volume.items()
        },
        "host_networks": {
            name: HostNetworkConfig(
                cidr=network.cidr,
                interface=network.interface,
                reserved_ports=network.reserved_ports,
            )
            for name, network in client.host_network.items()
        },
        "group_networks": _group_networks(client),
        "consul": _consul(file.consul),
        "vault": _vault(file.vault),
        "measured": MeasuredConfig(
            cpu_total_compute_mhz=client.cpu_total_compute,
            memory_total_mb=client.memory_total_mb,
            disk_total_mb=client.disk_total_mb,
            disk_free_mb=client.disk_free_mb,
            min_dynamic_port=client.min_dynamic_port,
            max_dynamic_port=client.max_dynamic_port,
        ),
        "reserved": ReservedConfig(
            cpu_mhz=client.reserved.cpu,
            memory_mb=client.reserved.memory,
            disk_mb=client.reserved.disk,
            reserved_ports=client.reserved.reserved_ports,
        ),
        "drivers": _driver_options(file),
        "garbage": GarbageConfig(
            max_allocs=client.gc_max_allocs,
            disk_usage_percent=client.gc_disk_usage_threshold,
            inode_usage_percent=client.gc_inode_usage_threshold,
            parallel_destroys=client.gc_parallel_destroys,
            interval_s=parse_setting_ns("client.gc_interval", client.gc_interval) / 1e9,
        ),
        "max_kill_timeout_s": (
            parse_setting_ns("client.max_kill_timeout", client.max_kill_timeout) / 1e9
        ),
        "artifact": made("client.artifact", artifact_limits, client.artifact),
        "template": made("client.template", template_settings, client.template),
        "acl_enabled": file.acl.enabled,
        **http_settings(file, faults),
    }
    if client.task_env_allow is not None:
        settings["task_env_allow"] = tuple(client.task_env_allow)
    return settings


def _names(text: str) -> tuple[str, ...]:
    """Returns the names in a text with commas between them."""
    return tuple(name for one in text.split(",") if (name := one.strip()))


def _gates(name: str, section: GatesSection) -> GatePolicy:
    return GatePolicy(
        windows=[parse_window(text) for text in section.windows],
        approvals=section.approvals,
        pusher_may_approve=section.pusher_may_approve,
        require_fit=section.require_fit,
        health=section.health,
        health_deadline_ns=parse_setting_ns(
            f"source.{name}.gates.health_deadline", section.health_deadline or "0s"
        ),
    )


def _source(name: str, section: SourceSection) -> Source:
    kind = section.kind or ("remote" if section.url else "builtin")
    source = Source(
        name=name,
        kind=kind,
        url=section.url,
        ref=section.ref,
        tags=TagPolicy(prefix=section.tag_prefix, prereleases=section.prereleases),
        exclude=section.exclude,
        repository=section.repository,
        namespace=section.namespace,
        region=section.region,
        variables=section.variables,
        var_files=section.var_files,
        poll_interval_ns=parse_setting_ns(f"source.{name}.poll_interval", section.poll_interval),
        prune=PrunePolicy(
            enabled=section.prune,
            max_share_percent=section.prune_max_share,
            wildcard=section.prune_wildcard,
            claims=section.prune_claims,
        ),
        credential=section.credential,
        ca_certificates=source_certificates(name, section),
        webhook_secret=section.webhook_secret,
        allow_rewind=section.allow_rewind,
        adopt=section.adopt,
        policies=section.policies,
        depends_on=section.depends_on,
        rollout_deadline_ns=parse_setting_ns(
            f"source.{name}.rollout_deadline", section.rollout_deadline or "0s"
        ),
        gates=_gates(name, section.gates),
    )
    source.drift = DriftPolicy(
        action=section.drift.action,
        ignore=section.drift.ignore,
        delay_ns=parse_setting_ns(f"source.{name}.drift.delay", section.drift.delay),
    )
    if section.paths is not None:
        source.paths = section.paths
    check_source(source)
    return source


def _driver_options(file: FileConfig) -> dict[str, dict[str, Any]]:
    """Returns the options of each driver; `client.chroot_env` is one of the drivers with a root
    file system made of the host's files."""
    options: dict[str, dict[str, Any]] = {}
    for name, section in file.plugin.items():
        options.setdefault(NOMADS_NAMES.get(name, name), {}).update(section.config)
    if file.client.chroot_env:
        for name in ("exec", "java"):
            options.setdefault(name, {}).setdefault("chroot_env", file.client.chroot_env)
    return options
