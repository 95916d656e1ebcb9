"""The settings with which a server starts: one frozen dataclass, validated once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchgit.control.leader_term import ControlConfig
from orchgit.control.workers.pool import SCHEDULER_TYPES
from orchgit.errors import InvalidInputError
from orchgit.gitops.config import GitopsConfig
from orchgit.host_port import is_host_port
from orchgit.metrics.settings import TelemetrySettings
from orchgit.model.operator import AutopilotConfig, SchedulerConfig
from orchgit.model.source import Source
from orchgit.server.audit.settings import AuditSettings
from orchgit.server.http.access import HttpAccess, access_of
from orchgit.server.membership.addresses import advertised
from orchgit.server.membership.joining_rules import JoinConfig, rpc_address_of
from orchgit.server.tracing import TraceSettings
from orchgit.services.acl.settings import AclSettings
from orchgit.services.jobs.admission import JobSettings
from orchgit.services.search import SearchLimits
from orchgit.services.secrets.node_identities import IntroductionSettings
from orchgit.wire.https import HttpTls
from orchgit.wire.limits import Limits
from orchgit.wire.tls import TlsFiles

LEAST_MAX_PRIORITY, MOST_PRIORITY = 100, 32766


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The settings of a server. Addresses are host:port; port 0 means any free one, known after
    start."""

    data_dir: Path
    name: str = ""
    """"" is the machine's name."""
    region: str = "global"
    datacenter: str = "dc1"
    http_bind: str = "127.0.0.1:4646"
    http_also: tuple[str, ...] = ()
    """Addresses on which HTTP listens beside `http_bind`."""
    rpc_bind: str = "127.0.0.1:4647"
    raft_bind: str = "127.0.0.1:0"
    http_advertise: str = ""
    """The address that others use: host, or host:port. "" is the bound address, or that of the
    machine's default route where the server listens on every address. The next two are alike."""
    rpc_advertise: str = ""
    raft_advertise: str = ""
    peers: tuple[str, ...] = ()
    """Raft addresses of the other servers; without any, this server is the whole cluster."""
    num_schedulers: int = 1
    job_settings: JobSettings = field(default_factory=JobSettings)
    ui_enabled: bool = True
    ui_label: str = ""
    """Shown on every page, to tell clusters apart."""
    search: SearchLimits = field(default_factory=SearchLimits)
    introductions: IntroductionSettings = field(default_factory=IntroductionSettings)
    enabled_schedulers: tuple[str, ...] = SCHEDULER_TYPES
    control: ControlConfig = field(default_factory=ControlConfig)
    acl: AclSettings = field(default_factory=AclSettings)
    autopilot_config: AutopilotConfig | None = None
    """Like `scheduler_config`."""
    scheduler_config: SchedulerConfig | None = None
    """Stored when this server first leads and none is; later changes over the API stay."""
    gitops: GitopsConfig = field(default_factory=GitopsConfig)
    sources: tuple[Source, ...] = ()
    """Sources that are stored when this server first leads; later changes over the API stay."""
    join: JoinConfig = field(default_factory=JoinConfig)
    """How the server joins a cluster; by default it forms one of its own."""
    leave_on_interrupt: bool = False
    """Whether stopping the server takes it out of the cluster."""
    leave_on_terminate: bool = False
    cluster_key_file: Path | None = None
    """The key that wraps the keys of variables, the same on every server. None: the server makes
    its own."""
    oidc_issuer: str = ""
    """The address in workload identities at which others find the keys that verify these."""
    tls: TlsFiles | None = None
    """The certificates of RPC and of the log. None: plain, on loop-back only."""
    http_tls: HttpTls | None = None
    """The certificates of HTTPS. None: HTTP is plain."""
    dev_mode: bool = False
    insecure_http: bool = False
    """Whether HTTP may answer other machines that show no certificate."""
    http_allowed_hosts: tuple[str, ...] = ()
    """Names under which HTTP answers besides the server's own names."""
    http_response_headers: Mapping[str, str] = field(default_factory=dict)
    """Added to every answer over HTTP."""
    limits: Limits = field(default_factory=Limits)
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    traces: TraceSettings | None = None
    """Where traces of rollouts are sent; None: nowhere."""
    configured: Mapping[str, Any] = field(default_factory=dict)
    """What the configuration files say, as `/v1/agent/self` shows it."""
    audit: AuditSettings | None = None
    """None: no request is recorded."""
    stop_timeout_s: float = 4.0

    def __post_init__(self) -> None:
        problems = [
            *_address_problems(
                {"http": self.http_bind, "rpc": self.rpc_bind, "serf": self.raft_bind}
            ),
            *_address_problems({f"http {each}": each for each in self.http_also}),
            *_address_problems({f"peer {peer}": peer for peer in self.peers}),
        ]
        if unknown := set(self.enabled_schedulers) - set(SCHEDULER_TYPES):
            problems.append(f"enabled_schedulers: there is no {', '.join(sorted(unknown))}")
        problems += _join_problems(self.join, self.peers)
        if self.num_schedulers < 0:
            problems.append("num_schedulers: must not be negative")
        if self.job_settings.max_count < 0:
            problems.append("job_max_count: must not be negative; 0 means no limit")
        if not LEAST_MAX_PRIORITY <= self.job_settings.max_priority <= MOST_PRIORITY:
            problems.append(
                f"job_max_priority: must be from {LEAST_MAX_PRIORITY} to {MOST_PRIORITY}"
            )
        if problems:
            raise InvalidInputError(f"cannot use the server's config: {'; '.join(problems)}")

    @property
    def raft_address(self) -> str:
        """The address under which the other servers reach this one's log."""
        return advertised("serf", self.raft_bind, self.raft_advertise)

    @property
    def agents_tls(self) -> TlsFiles | None:
        """The certificates with which this server reaches agents that serve HTTPS."""
        return self.http_tls.files if self.http_tls else self.tls

    @property
    def checks_tokens(self) -> bool:
        return self.acl.enabled

    @property
    def http_access(self) -> HttpAccess:
        """Returns how HTTP is reached. Raises InvalidInputError for an unreadable certificate."""
        advertised = (self.http_advertise, self.rpc_advertise, self.raft_advertise)
        return access_of(self, (self.name, self.http_bind, *advertised))

    @property
    def server_dir(self) -> Path:
        return self.data_dir / "server"

    @property
    def own_cluster_key_file(self) -> Path:
        """Where a server without a configured cluster key keeps its own."""
        return self.server_dir / "keyring" / "cluster.key"


def _join_problems(join: JoinConfig, peers: tuple[str, ...]) -> list[str]:
    problems = []
    for address in (*join.start_join, *join.retry_join):
        try:
            rpc_address_of(address)
        except InvalidInputError as error:
            problems.append(str(error))
    if (join.bootstrap_expect or 0) < 0 or join.retry_max < 0:
        problems.append("bootstrap_expect and retry_max must not be negative")
    if join.waits and peers:
        problems.append("peers: give either these or server_join")
    return problems


def _address_problems(addresses: Mapping[str, str]) -> list[str]:
    problems = []
    for name, address in addresses.items():
        if not is_host_port(address):
            problems.append(f'{name}: "{address}" is not host:port')
    return problems
