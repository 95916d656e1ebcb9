"""The configuration of an agent: one frozen dataclass, validated once."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent.artifacts.plan import FetchLimits
from agent.http_json import HttpService
from agent.networks.config import GroupNetworkConfig
from agent.tasks.environment import DEFAULT_ALLOWED
from agent.templates.settings import TemplateSettings
from agent.vault.tokens import VaultConfig
from orchgit.errors import InvalidInputError
from orchgit.host_port import is_host_port, split_host_port
from orchgit.metrics.settings import TelemetrySettings
from orchgit.wire.https import HttpTls
from orchgit.wire.limits import Limits
from orchgit.wire.tls import TlsFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class HostVolumeConfig:
    """A directory of the node that jobs may mount by name."""

    path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNetworkConfig:
    """Addresses of the node that ports may ask for by name: those of an interface, of a CIDR block,
    or of both."""

    cidr: str = ""
    interface: str = ""
    reserved_ports: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsulConfig:
    """The Consul agent of this machine."""

    service: HttpService
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredConfig:
    """What the configuration says instead of what is found on the machine; 0 means: as found."""

    cpu_total_compute_mhz: int = 0
    memory_total_mb: int = 0
    disk_total_mb: int = 0
    disk_free_mb: int = 0
    min_dynamic_port: int = 20000
    max_dynamic_port: int = 32000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedConfig:
    """What the node keeps from tasks."""

    cpu_mhz: int = 0
    memory_mb: int = 0
    disk_mb: int = 0
    reserved_ports: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageConfig:
    """When the files of ended allocations are removed."""

    max_allocs: int = 50
    """Beyond these, running ones included, ended ones lose their files, the oldest first."""
    disk_usage_percent: float = 80.0
    inode_usage_percent: float = 70.0
    parallel_destroys: int = 2
    """How many allocations lose their files at the same time."""
    interval_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    data_dir: Path
    servers: tuple[str, ...]
    """host:port of the servers' RPC, at least one."""
    node_name: str = ""
    """"" means the machine's name."""
    region: str = "global"
    datacenter: str = "dc1"
    node_pool: str = "default"
    node_class: str = ""
    intro_token: str = field(default="", repr=False)
    """With which a new node introduces itself to servers that ask for it."""
    meta: Mapping[str, str] = field(default_factory=dict)
    host_volumes: Mapping[str, HostVolumeConfig] = field(default_factory=dict)
    host_volume_plugin_dir: Path | None = None
    """Where executables that make host volumes lie; None: `host_volume_plugins` in `data_dir`."""
    host_networks: Mapping[str, HostNetworkConfig] = field(default_factory=dict)
    consul: ConsulConfig | None = None
    """None: services of provider `consul` are not registered anywhere."""
    vault: VaultConfig | None = None
    """None: tasks get no tokens of Vault."""
    group_networks: GroupNetworkConfig = field(default_factory=GroupNetworkConfig)
    measured: MeasuredConfig = field(default_factory=MeasuredConfig)
    reserved: ReservedConfig = field(default_factory=ReservedConfig)
    http_addr: str = ""
    """The address of this agent's HTTP API, for the servers and their clients."""
    network_interface: str = ""
    network_speed_mbits: int = 0
    """0: as the interface says."""
    preferred_address_family: str = ""
    """`ipv4` or `ipv6`: which address of the interface comes first; "": the IPv4 address."""
    drivers: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Options by driver: `{"raw_exec": {"enabled": True}}`."""
    host_env: Mapping[str, str] | None = None
    """Given to tasks that see the host's files; None: what `task_env_allow` names of the agent's
    own."""
    task_env_allow: tuple[str, ...] = DEFAULT_ALLOWED
    """Names of variables, or patterns with `*`."""
    artifact: FetchLimits = field(default_factory=FetchLimits)
    template: TemplateSettings = field(default_factory=TemplateSettings)
    garbage: GarbageConfig = field(default_factory=GarbageConfig)
    max_kill_timeout_s: float = 30.0
    """However long a job wants its tasks to be waited for when they are stopped."""
    tls: TlsFiles | None = None
    http_tls: HttpTls | None = None
    """None: what `http_addr` serves is plain HTTP."""
    insecure_http: bool = False
    """Whether HTTP may answer other machines that show no certificate."""
    http_allowed_hosts: tuple[str, ...] = ()
    http_also: tuple[str, ...] = ()
    """Addresses (host:port) on which its own HTTP listens beside the first."""
    limits: Limits = field(default_factory=Limits)
    acl_enabled: bool = False
    """Whether the agent's own HTTP checks tokens even if the servers do not say so."""
    driver_allowlist: tuple[str, ...] = ()
    """The only drivers of this node; empty: all that are there."""
    driver_denylist: tuple[str, ...] = ()
    default_ineligible: bool = False
    """Whether the node is not eligible for work when it registers for the first time."""
    http_response_headers: Mapping[str, str] = field(default_factory=dict)
    """Added to every answer over HTTP."""
    disable_remote_exec: bool = False
    """Whether nobody may run commands in the tasks of this node."""
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)

    def __post_init__(self) -> None:
        problems = [
            *(f"servers: {problem}" for problem in map(_address_problem, self.servers) if problem),
            *_volume_problems(self.host_volumes),
            *_network_problems(self.host_networks),
            *self.group_networks.problems(),
        ]
        if self.preferred_address_family not in ("", "ipv4", "ipv6"):
            problems.append('preferred_address_family: must be "ipv4" or "ipv6"')
        if self.network_speed_mbits < 0:
            problems.append("network_speed: must not be negative")
        if self.consul is not None and (problem := self.consul.service.problem()):
            problems.append(f"consul.address: {problem}")
        if self.vault is not None and (problem := self.vault.service.problem()):
            problems.append(f"vault.address: {problem}")
        if not self.servers:
            problems.append("servers: name at least one, as host:port")
        if self.garbage.max_allocs < 0:
            problems.append("garbage.max_allocs: must not be negative")
        if self.garbage.parallel_destroys < 1:
            problems.append("garbage.parallel_destroys: must be at least 1")
        if self.max_kill_timeout_s < 0:
            problems.append("max_kill_timeout: must not be negative")
        if problems:
            raise InvalidInputError(f"cannot use the agent's config: {'; '.join(problems)}")

    @property
    def checks_tokens(self) -> bool:
        return self.acl_enabled

    @property
    def client_dir(self) -> Path:
        return self.data_dir / "client"

    @property
    def alloc_root(self) -> Path:
        return self.data_dir / "alloc"


def _address_problem(address: str) -> str:
    known = is_host_port(address) and split_host_port(address)[1] > 0
    return "" if known else f'"{address}" is not host:port'


def _volume_problems(volumes: Mapping[str, HostVolumeConfig]) -> list[str]:
    return [
        f'host_volumes: "{name}" needs an absolute path that exists, not "{volume.path}"'
        for name, volume in volumes.items()
        if not volume.path.startswith("/") or not Path(volume.path).exists()
    ]


def _network_problems(networks: Mapping[str, HostNetworkConfig]) -> list[str]:
    problems = []
    for name, host_network in networks.items():
        try:
            ipaddress.ip_network(host_network.cidr or "0.0.0.0/0", strict=False)
        except ValueError:
            problems.append(f'host_network "{name}": "{host_network.cidr}" is no CIDR block')
    return problems
