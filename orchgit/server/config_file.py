"""The agent's config file, HCL or JSON in Nomad's shape; a key nobody knows is an error.

Only what the structs below name is read. Durations are texts such as "10s". Secrets are named, not
written: `password_file`, `secret_file` or `..._env` say where they are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import field

from orchgit.errors import InvalidInputError
from orchgit.server.config_tree import read_tree, shaped


class Section(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Base of every block; fields have the names of the file's keys."""


class AddressesSection(Section, frozen=True):
    http: str = ""
    rpc: str = ""
    serf: str = ""


class PortsSection(Section, frozen=True):
    http: int = 4646
    rpc: int = 4647
    serf: int = 4648


class JoinSection(Section, frozen=True):
    retry_join: list[str] = []
    start_join: list[str] = []
    retry_max: int = 0
    retry_interval: str = "15s"


class ServerSection(Section, frozen=True):
    enabled: bool = False
    bootstrap_expect: int = 1
    num_schedulers: int = 1
    enabled_schedulers: list[str] = []
    heartbeat_grace: str = "10s"
    min_heartbeat_ttl: str = "10s"
    failover_heartbeat_ttl: str = "1m"
    max_heartbeats_per_second: float = 50.0
    eval_gc_threshold: str = "1h"
    job_gc_threshold: str = "4h"
    job_gc_interval: str = "5m"
    deployment_gc_threshold: str = "1h"
    node_gc_threshold: str = "24h"
    server_join: JoinSection = JoinSection()
    retry_join: list[str] = []


class HostVolumeSection(Section, frozen=True):
    path: str = ""
    read_only: bool = False


class ReservedSection(Section, frozen=True):
    cpu: int = 0
    memory: int = 0
    disk: int = 0
    reserved_ports: str = ""


class ClientSection(Section, frozen=True):
    enabled: bool = False
    servers: list[str] = []
    server_join: JoinSection = JoinSection()
    node_class: str = ""
    node_pool: str = "default"
    meta: dict[str, str] = {}
    options: dict[str, str] = {}
    host_volume: dict[str, HostVolumeSection] = {}
    reserved: ReservedSection = ReservedSection()
    network_interface: str = ""
    gc_max_allocs: int = 50
    gc_disk_usage_threshold: float = 80.0
    gc_interval: str = "1m"


class PluginSection(Section, frozen=True):
    config: dict[str, Any] = {}


class TlsSection(Section, frozen=True):
    http: bool = False
    rpc: bool = False
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""


class AclSection(Section, frozen=True):
    enabled: bool = False


class UiSection(Section, frozen=True):
    enabled: bool = True


class CredentialSection(Section, frozen=True):
    """`origin` binds it: it is never sent anywhere else."""

    origin: str = ""
    username: str = ""
    password_file: str = ""
    password_env: str = ""
    ssh_key_file: str = ""
    ssh_known_hosts_file: str = ""


class SecretSection(Section, frozen=True):
    secret_file: str = ""
    secret_env: str = ""


class PruneSection(Section, frozen=True):
    enabled: bool = True
    max_share_percent: int = 50


class SourceSection(Section, frozen=True):
    url: str = ""
    kind: str = ""
    """Empty: builtin without a url, local for an absolute path, else remote."""
    ref: str = "refs/heads/main"
    namespace: str = "default"
    paths: list[str] = []
    variables: dict[str, str] = {}
    var_files: list[str] = []
    poll_interval: str = "15s"
    credential: str = ""
    webhook_secret: str = ""
    allow_rewind: bool = False
    prune: PruneSection = PruneSection()


class GitopsSection(Section, frozen=True):
    source: dict[str, SourceSection] = {}
    credential: dict[str, CredentialSection] = {}
    webhook_secret: dict[str, SecretSection] = {}


class AgentFile(Section, frozen=True):
    """The whole file; everything may be left out."""

    region: str = "global"
    datacenter: str = "dc1"
    name: str = ""
    data_dir: str = ""
    bind_addr: str = "127.0.0.1"
    log_level: str = "INFO"
    log_json: bool = False
    enable_debug: bool = False
    leave_on_interrupt: bool = False
    leave_on_terminate: bool = False
    addresses: AddressesSection = AddressesSection()
    advertise: AddressesSection = AddressesSection()
    ports: PortsSection = PortsSection()
    server: ServerSection = ServerSection()
    client: ClientSection = ClientSection()
    plugin: dict[str, PluginSection] = {}
    tls: TlsSection = TlsSection()
    acl: AclSection = AclSection()
    ui: UiSection = UiSection()
    telemetry: dict[str, Any] = field(default_factory=dict)
    gitops: GitopsSection = GitopsSection()


def read_config(path: Path) -> AgentFile:
    """Raises InvalidInputError naming the file and the key, JobFileError for broken HCL."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"cannot read config {path}: {error.strerror}") from error
    return config_of_tree(read_tree(content, str(path)), str(path))


def config_of_tree(tree: Mapping[str, Any], name: str) -> AgentFile:
    try:
        config = msgspec.convert(shaped(tree, AgentFile), AgentFile, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"cannot use config {name}: {error}") from error
    if config.acl.enabled:
        raise InvalidInputError(
            f"cannot use config {name}: acl.enabled: access control is not part of this version; "
            "bind to loopback or a private network instead"
        )
    return config


def secret_of(file: str, variable: str, what: str) -> str:
    """The secret that a file or an environment variable holds; empty when neither is named."""
    if file:
        try:
            return Path(file).read_text().strip()
        except OSError as error:
            raise InvalidInputError(f"cannot read {what} from {file}: {error.strerror}") from error
    if variable:
        value = os.environ.get(variable, "")
        if not value:
            raise InvalidInputError(f"cannot read {what}: environment variable {variable} is empty")
        return value
    return ""
