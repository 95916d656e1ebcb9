"""From the config file to the server's config."""

from __future__ import annotations

from pathlib import Path

from jobspec.durations import DurationError, parse_ns
from orchgit.clock import SECOND_NS
from orchgit.control.garbage import GarbageLimits
from orchgit.control.heartbeat_timers import HeartbeatLimits
from orchgit.control.reign import ControlConfig
from orchgit.control.worker_pool import SCHEDULER_TYPES
from orchgit.errors import InvalidInputError
from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.fetch import GitCredential
from orchgit.model.source import PrunePolicy, Source, SourceKind
from orchgit.server.config import ServerConfig
from orchgit.server.config_file import (
    AgentFile,
    CredentialSection,
    GitopsSection,
    ServerSection,
    SourceSection,
    secret_of,
)
from orchgit.wire.tls import TlsFiles


def server_config(file: AgentFile, data_dir: Path, *, dev_mode: bool = False) -> ServerConfig:
    """`data_dir` beats the file's; both raise InvalidInputError for values that cannot be used."""
    return ServerConfig(
        data_dir=data_dir,
        name=file.name,
        region=file.region,
        datacenter=file.datacenter,
        http_bind=f"{file.addresses.http or file.bind_addr}:{file.ports.http}",
        rpc_bind=f"{file.addresses.rpc or file.bind_addr}:{file.ports.rpc}",
        raft_bind=f"{file.addresses.serf or file.bind_addr}:{file.ports.serf}",
        peers=tuple(file.server.server_join.retry_join or file.server.retry_join),
        num_schedulers=file.server.num_schedulers,
        enabled_schedulers=tuple(file.server.enabled_schedulers) or SCHEDULER_TYPES,
        control=_control(file.server),
        gitops=_gitops(file.gitops),
        sources=tuple(source_of(name, each) for name, each in file.gitops.source.items()),
        tls=tls_files(file),
        dev_mode=dev_mode,
        log_level=file.log_level,
    )


def tls_files(file: AgentFile) -> TlsFiles | None:
    """For the internal RPC; None when `tls.rpc` is off."""
    if not file.tls.rpc:
        return None
    names = {
        "ca_file": file.tls.ca_file,
        "cert_file": file.tls.cert_file,
        "key_file": file.tls.key_file,
    }
    if missing := [name for name, value in names.items() if not value]:
        raise InvalidInputError(f"cannot use tls.rpc: {', '.join(missing)} missing")
    return TlsFiles(*(Path(value) for value in names.values()))


def seconds(text: str, key: str) -> float:
    try:
        return parse_ns(text) / SECOND_NS
    except DurationError as error:
        raise InvalidInputError(f"cannot use {key}: {error}") from error


def _control(section: ServerSection) -> ControlConfig:
    return ControlConfig(
        heartbeats=HeartbeatLimits(
            min_ttl_s=seconds(section.min_heartbeat_ttl, "server.min_heartbeat_ttl"),
            grace_s=seconds(section.heartbeat_grace, "server.heartbeat_grace"),
            max_per_s=section.max_heartbeats_per_second,
            failover_s=seconds(section.failover_heartbeat_ttl, "server.failover_heartbeat_ttl"),
        ),
        garbage=GarbageLimits(
            interval_s=seconds(section.job_gc_interval, "server.job_gc_interval"),
            evaluation_age_s=seconds(section.eval_gc_threshold, "server.eval_gc_threshold"),
            job_age_s=seconds(section.job_gc_threshold, "server.job_gc_threshold"),
            deployment_age_s=seconds(
                section.deployment_gc_threshold, "server.deployment_gc_threshold"
            ),
            node_age_s=seconds(section.node_gc_threshold, "server.node_gc_threshold"),
        ),
    )


def _gitops(section: GitopsSection) -> GitopsConfig:
    return GitopsConfig(
        credentials={name: _credential(name, each) for name, each in section.credential.items()},
        webhook_secrets={
            name: secret_of(each.secret_file, each.secret_env, f'webhook secret "{name}"')
            for name, each in section.webhook_secret.items()
        },
    )


def _credential(name: str, section: CredentialSection) -> GitCredential:
    password = secret_of(section.password_file, section.password_env, f'credential "{name}"')
    return GitCredential(
        origin=section.origin,
        username=section.username,
        password=password,
        ssh_key_file=section.ssh_key_file,
        ssh_known_hosts_file=section.ssh_known_hosts_file,
    )


def source_of(name: str, section: SourceSection) -> Source:
    kind = SourceKind.BUILTIN
    if section.url:
        kind = SourceKind.LOCAL if section.url.startswith("/") else SourceKind.REMOTE
    source = Source(
        name=name,
        namespace=section.namespace,
        kind=section.kind or kind,
        url=section.url,
        ref=section.ref if section.ref.startswith("refs/") else f"refs/heads/{section.ref}",
        variables=dict(section.variables),
        var_files=list(section.var_files),
        poll_interval_ns=round(seconds(section.poll_interval, f"source {name}") * SECOND_NS),
        prune=PrunePolicy(section.prune.enabled, section.prune.max_share_percent),
        credential=section.credential,
        webhook_secret=section.webhook_secret,
        allow_rewind=section.allow_rewind,
    )
    if section.paths:
        source.paths = list(section.paths)
    return source
