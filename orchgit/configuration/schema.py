"""The keys of an agent's configuration that have an effect, with their defaults."""

from __future__ import annotations

from typing import Any

import msgspec

from orchgit.configuration.control import ControlSection, Section


class Ports(Section):
    http: int = 4646
    rpc: int = 4647
    serf: int = 4648


class Addresses(Section):
    """Addresses to listen on; each is `bind_addr` where it is empty."""

    http: str = ""
    rpc: str = ""
    serf: str = ""


class Advertise(Addresses):
    """The addresses that others are told: host, or host:port."""


class HostVolumeSection(Section):
    path: str = ""
    read_only: bool = False


class ReservedSection(Section):
    cpu: int = 0
    memory: int = 0
    disk: int = 0
    reserved_ports: str = ""


class PluginSection(Section):
    config: dict[str, Any] = {}


class JoinSection(Section):
    retry_join: list[str] = []
    start_join: list[str] = []
    retry_interval: str = "1s"
    retry_max: int = 0


class SearchSection(Section):
    fuzzy_enabled: bool = True
    limit_results: int = 100
    min_term_length: int = 2


class IntroductionSection(Section):
    """Which new nodes servers take. `enforcement`: none, warn or strict."""

    enforcement: str = "none"
    default_identity_ttl: str = "5m"
    max_identity_ttl: str = "30m"


class ServerSection(ControlSection):
    """The server section. `retry_join` and the keys after it are an older form of `server_join`."""

    enabled: bool = False
    bootstrap_expect: int | None = None
    server_join: JoinSection | None = None
    retry_join: list[str] = []
    start_join: list[str] = []
    retry_interval: str = ""
    retry_max: int = 0
    num_schedulers: int = 1
    job_max_count: int = 50_000
    job_max_priority: int = 100
    search: SearchSection = msgspec.field(default_factory=SearchSection)
    client_introduction: IntroductionSection = msgspec.field(default_factory=IntroductionSection)
    enabled_schedulers: list[str] | None = None
    cluster_key_file: str = ""
    oidc_issuer: str = ""


class ArtifactSection(Section):
    """What an artifact may cost; sizes are "100GB" or "512MiB"."""

    http_read_timeout: str = "30m"
    http_max_size: str = "100GB"
    git_timeout: str = "30m"
    s3_timeout: str = "30m"
    gcs_timeout: str = "30m"
    decompression_size_limit: str = "100GB"
    decompression_file_count_limit: int = 4096
    decompression_ratio_limit: int = 200
    set_environment_variables: str = ""
    disable_filesystem_isolation: bool = False
    filesystem_isolation_extra_paths: list[str] = []


class WaitSection(Section):
    """Durations as text; "" is not given."""

    min: str = ""
    max: str = ""


class RetrySection(Section):
    """How long the pauses between failed reads are."""

    backoff: str = "250ms"
    max_backoff: str = "1m"


class TemplateSection(Section):
    """How the templates of tasks are rendered."""

    function_denylist: list[str] | None = None
    function_blacklist: list[str] | None = None
    disable_file_sandbox: bool = False
    block_query_wait: str = "5m"
    wait: WaitSection = msgspec.field(default_factory=lambda: WaitSection("5s", "4m"))
    wait_bounds: WaitSection | None = None
    nomad_retry: RetrySection = msgspec.field(default_factory=RetrySection)
    use_client_consul_token: bool = False


class HostNetworkSection(Section):
    cidr: str = ""
    interface: str = ""
    reserved_ports: str = ""


class ClientSection(Section):
    enabled: bool = False
    servers: list[str] = []
    server_join: JoinSection | None = None
    node_pool: str = "default"
    node_class: str = ""
    meta: dict[str, str] = {}
    host_volume: dict[str, HostVolumeSection] = {}
    host_volume_plugin_dir: str = ""
    host_network: dict[str, HostNetworkSection] = {}
    reserved: ReservedSection = msgspec.field(default_factory=ReservedSection)
    network_interface: str = ""
    network_speed: int = 0
    preferred_address_family: str = ""
    cni_path: str = ""
    cni_config_dir: str = ""
    bridge_network_name: str = ""
    bridge_network_subnet: str = ""
    bridge_network_subnet_ipv6: str = ""
    bridge_network_hairpin_mode: bool = False
    bind_wildcard_default_host_network: bool = True
    options: dict[str, str] = {}
    disable_remote_exec: bool = False
    default_ineligible: bool = False
    cpu_total_compute: int = 0
    memory_total_mb: int = 0
    disk_total_mb: int = 0
    disk_free_mb: int = 0
    min_dynamic_port: int = 20000
    max_dynamic_port: int = 32000
    gc_max_allocs: int = 50
    gc_disk_usage_threshold: float = 80.0
    gc_inode_usage_threshold: float = 70.0
    gc_parallel_destroys: int = 2
    gc_interval: str = "1m"
    max_kill_timeout: str = "30s"
    chroot_env: dict[str, str] = {}
    task_env_allow: list[str] | None = None
    artifact: ArtifactSection = msgspec.field(default_factory=ArtifactSection)
    template: TemplateSection = msgspec.field(default_factory=TemplateSection)


class TlsSection(Section):
    """The certificates; `rpc` is on wherever files are named, unless it is switched off."""

    http: bool = False
    rpc: bool | None = None
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    verify_https_client: bool = False
    verify_server_hostname: bool = True


class LimitsSection(Section):
    http_max_conns_per_client: int = 100
    https_handshake_timeout: str = "5s"
    rpc_handshake_timeout: str = "5s"
    rpc_max_conns_per_client: int = 100


class AuditSinkSection(Section):
    type: str = "file"
    format: str = "json"
    path: str = ""
    delivery_guarantee: str = "enforced"
    rotate_bytes: int = 0
    rotate_duration: str = "24h"
    rotate_max_files: int = 0
    mode: str = "0600"


class AuditFilterSection(Section):
    """Requests that are not recorded."""

    type: str = "HTTPEvent"
    endpoints: list[str] = []
    stages: list[str] = []
    operations: list[str] = []


class AuditSection(Section):
    enabled: bool = False
    sink: dict[str, AuditSinkSection] = {}
    filter: dict[str, AuditFilterSection] = {}


class CredentialSection(Section):
    origin: str = ""
    username: str = ""
    password: str = ""
    ssh_key_file: str = ""
    ssh_known_hosts_file: str = ""
    ssh_known_hosts: str = ""
    ca_file: str = ""
    ca_pem: str = ""
    client_cert_file: str = ""
    client_key_file: str = ""
    proxy: str = ""
    sources: list[str] = []
    urls: list[str] = []


class GatesSection(Section):
    """`windows` are texts like "allow 0 9 * * 1-5 8h Europe/Berlin"."""

    windows: list[str] = []
    approvals: int = 0
    pusher_may_approve: bool = False
    require_fit: bool = False
    health: str = "report"
    health_deadline: str = ""


class DriftSection(Section):
    """A source's `drift` block."""

    action: str = "report"
    ignore: list[str] = []
    delay: str = "5s"


class SourceSection(Section):
    url: str = ""
    kind: str = ""
    ref: str = "refs/heads/main"
    paths: list[str] | None = None
    exclude: list[str] = []
    namespace: str = "default"
    region: str = ""
    repository: str = ""
    tag_prefix: str = ""
    prereleases: bool = False
    variables: dict[str, str] = {}
    var_files: list[str] = []
    poll_interval: str = "15s"
    prune: bool = True
    credential: str = ""
    ca_file: str = ""
    ca_pem: str = ""
    webhook_secret: str = ""
    allow_rewind: bool = False
    adopt: bool = False
    policies: list[str] = []
    rollout_deadline: str = ""
    depends_on: list[str] = []
    prune_max_share: int = 50
    prune_wildcard: bool = False
    prune_claims: str = "named"
    gates: GatesSection = msgspec.field(default_factory=GatesSection)
    drift: DriftSection = msgspec.field(default_factory=DriftSection)


class GitopsLimitsSection(Section):
    """What repositories may cost. Sizes are bytes, or texts such as "512MiB"; what is not given is
    the limit of `GitLimits` or `ParseLimits`."""

    max_file_bytes: int | str = ""
    max_job_files: int = 0
    max_tree_entries: int = 0
    max_tree_depth: int = 0
    max_refs: int = 0
    max_push_bytes: int | str = ""
    max_preview_bytes: int | str = ""
    max_fetch_bytes: int | str = ""
    max_mirror_bytes: int | str = ""
    max_git_memory_bytes: int | str = ""
    max_parsed_bytes: int | str = ""
    list_timeout: str = ""
    fetch_timeout: str = ""
    silence_timeout: str = ""
    pack_timeout: str = ""
    mirror_timeout: str = ""
    hold_timeout: str = ""
    catch_up_timeout: str = ""
    parse_timeout: str = ""
    parse_memory_bytes: int | str = ""
    parse_processes: int = 0
    max_steps: int = 0


class GitopsSection(Section):
    proxy: str = ""
    no_proxy: list[str] = []
    ca_file: str = ""
    ca_pem: str = ""
    ssh_known_hosts_file: str = ""
    ssh_known_hosts: str = ""
    limits: GitopsLimitsSection = msgspec.field(default_factory=GitopsLimitsSection)
    local_paths: list[str] = []
    webhook_secrets: dict[str, str] = {}
    credential: dict[str, CredentialSection] = {}
    source: dict[str, SourceSection] = {}


class AutopilotSection(Section):
    cleanup_dead_servers: bool = True
    last_contact_threshold: str = "200ms"
    max_trailing_logs: int = 250
    min_quorum: int = 0
    server_stabilization_time: str = "10s"


class TelemetrySection(Section):
    publish_allocation_metrics: bool = False
    publish_node_metrics: bool = False
    prometheus_metrics: bool = True
    filter_default: bool = True
    prefix_filter: list[str] = []
    disable_dispatched_job_summary_metrics: bool = False
    disable_quota_utilization_metrics: bool = False
    disable_allocation_hook_metrics: bool = False
    statsd_address: str = ""
    statsite_address: str = ""
    datadog_address: str = ""
    datadog_tags: list[str] = []
    collection_interval: str = "10s"
    otlp_endpoint: str = ""
    otlp_headers: dict[str, str] = {}


class UiLabelSection(Section):
    text: str = ""


class UiSection(Section):
    """The pages for people. `label.text` is shown on each."""

    enabled: bool = True
    label: UiLabelSection = msgspec.field(default_factory=UiLabelSection)


class AclSection(Section):
    enabled: bool = False
    token_min_expiration_ttl: str = "1m"  # noqa: S105 - a length of time
    token_max_expiration_ttl: str = "24h"  # noqa: S105


class ConsulSection(Section):
    name: str = ""
    address: str = "127.0.0.1:8500"
    token: str = ""
    namespace: str = ""
    ssl: bool = False
    verify_ssl: bool = True
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    auth: str = ""


class VaultSection(Section):
    name: str = ""
    enabled: bool | None = None
    address: str = "https://vault.service.consul:8200"
    namespace: str = ""
    jwt_auth_backend_path: str = "jwt-nomad"
    create_from_role: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    tls_server_name: str = ""
    tls_skip_verify: bool = False


class FileConfig(Section):
    """The whole file; `docs/configuration.md` lists the same keys."""

    name: str = ""
    region: str = "global"
    datacenter: str = "dc1"
    data_dir: str = ""
    bind_addr: str = "127.0.0.1"
    log_level: str = "INFO"
    log_json: bool = False
    log_file: str = ""
    log_rotate_bytes: int = 0
    log_rotate_duration: str = ""
    log_rotate_max_files: int = 0
    leave_on_interrupt: bool = False
    leave_on_terminate: bool = False
    ports: Ports = msgspec.field(default_factory=Ports)
    addresses: Addresses = msgspec.field(default_factory=Addresses)
    advertise: Advertise = msgspec.field(default_factory=Advertise)
    server: ServerSection = msgspec.field(default_factory=ServerSection)
    client: ClientSection = msgspec.field(default_factory=ClientSection)
    plugin: dict[str, PluginSection] = {}
    tls: TlsSection | None = None
    limits: LimitsSection = msgspec.field(default_factory=LimitsSection)
    autopilot: AutopilotSection | None = None
    http_api_response_headers: dict[str, str] = {}
    telemetry: TelemetrySection = msgspec.field(default_factory=TelemetrySection)
    ui: UiSection = msgspec.field(default_factory=UiSection)
    acl: AclSection = msgspec.field(default_factory=AclSection)
    insecure_http: bool = False
    http_allowed_hosts: list[str] = []
    audit: AuditSection = msgspec.field(default_factory=AuditSection)
    consul: dict[str, ConsulSection] = {}
    vault: dict[str, VaultSection] = {}
    gitops: GitopsSection = msgspec.field(default_factory=GitopsSection)
