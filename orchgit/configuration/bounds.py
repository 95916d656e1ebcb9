"""The values that each key of the configuration takes: one table, by the path of the key.

A key that is missing here takes every value of its kind. Labels are no part of a path:
`gitops.source.poll_interval` is that of every source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchgit.configuration.bound_kinds import (
    Bound,
    Checked,
    Duration,
    Each,
    Names,
    TextBound,
    Whole,
    filled,
    one_of,
    wrong_by,
)
from orchgit.configuration.sizes import parse_bytes
from orchgit.configuration.text_rules import (
    absolute,
    absolute_paths,
    advertised,
    bridge_name,
    cidr,
    extra_path,
    host_port,
    host_port_or_url,
    interface,
    listening,
    log_level,
    login,
    meta_name,
    name_or_default,
    node_pool,
    port_ranges,
    source_name,
    subnet,
    url,
    variable_names,
)
from orchgit.control.workers.pool import MAX_WORKERS, SCHEDULER_TYPES
from orchgit.gitops.git.urls import check_proxy, origin_of
from orchgit.metrics.settings import MetricFilter
from orchgit.model.gates import HealthAction
from orchgit.model.source import ClaimDeletion, DriftAction, SourceKind
from orchgit.model.window_text import parse_window
from orchgit.server.audit.settings import Stage, parse_mode
from orchgit.server.config import LEAST_MAX_PRIORITY, MOST_PRIORITY
from orchgit.server.http.access import check_headers
from orchgit.server.http.host_names import check_names
from orchgit.server.membership.joining_rules import rpc_address_of
from orchgit.services.gitops.gate_rules import MAX_APPROVALS
from orchgit.services.gitops.gate_rules import MAX_DURATION_NS as MAX_GATE_NS
from orchgit.services.gitops.sources import MAX_DURATION_NS, MIN_POLL_INTERVAL_NS
from orchgit.services.secrets.node_identities import Enforcement

_NS_PER_S = 1_000_000_000
_HOUR_NS = 3600 * _NS_PER_S
_MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class Headers:
    """Headers of HTTP."""

    def problem(self, value: object) -> str:
        assert isinstance(value, Mapping)
        return wrong_by(lambda _: check_headers(value), "")


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules by which metrics are hidden."""

    def problem(self, value: object) -> str:
        assert isinstance(value, Sequence)
        return wrong_by(lambda _: MetricFilter(tuple(map(str, value))), "")


_PLAIN = TextBound(lambda _: "")
"""A text without control characters."""
_COUNT = Whole()
_ONE_OR_MORE = Whole(1)
_PORT = Whole(0, _MAX_PORT)
_GIVEN_PORT = Whole(1, _MAX_PORT)
_PERCENT = Whole(0, 100, above=0, meaning="percent")
_LENGTH = Duration()
_SOME_TIME = Duration(zero=False)
_HANDSHAKE = Duration(0, _HOUR_NS, meaning="0s: no limit")
_SIZE = Checked(lambda text: parse_bytes("the size", text), empty=False)
_SOME_BYTES = TextBound(
    lambda text: (
        wrong_by(lambda size: parse_bytes("the size", size), text)
        or ("" if parse_bytes("the size", text) else "it must be more than zero")
    )
)
_ABSOLUTE = TextBound(absolute)
_PORTS = TextBound(port_ranges)
_SERVERS = Each(Checked(rpc_address_of, empty=False))
_URL = TextBound(url)
_LISTENS = TextBound(listening(several=False))
_JOIN: dict[str, Bound] = {
    "retry_join": _SERVERS,
    "start_join": _SERVERS,
    "retry_interval": _SOME_TIME,
    "retry_max": Whole(meaning="0: without limit"),
}
_AT_LEAST_1S = Duration(_NS_PER_S, zero=False)
_CERTIFICATES = ("ca_file", "cert_file", "key_file")


def _same(bound: Bound, *names: str) -> dict[str, Bound]:
    return dict.fromkeys(names, bound)


def _below(block: str, bounds: Mapping[str, Bound]) -> dict[str, Bound]:
    return {f"{block}.{name}": bound for name, bound in bounds.items()}


_AGENT: dict[str, Bound] = {
    "region": name_or_default("global"),
    "datacenter": name_or_default("dc1", "*"),
    "name": _PLAIN,
    "data_dir": _PLAIN,
    "bind_addr": TextBound(listening(several=False), empty=False),
    "log_level": TextBound(log_level, empty=False),
    "log_file": _PLAIN,
    "log_rotate_bytes": _COUNT,
    "log_rotate_duration": Duration(empty=True),
    "log_rotate_max_files": _COUNT,
    "http_api_response_headers": Headers(),
    "http_allowed_hosts": Each(Checked(lambda name: check_names([name]), empty=False)),
    **_below("ports", _same(_PORT, "http", "rpc", "serf")),
    "addresses.http": TextBound(listening(several=True)),
    "addresses.rpc": _LISTENS,
    "addresses.serf": _LISTENS,
    **_below("advertise", _same(TextBound(advertised), "http", "rpc", "serf")),
    "acl.token_min_expiration_ttl": _SOME_TIME,
    "acl.token_max_expiration_ttl": _SOME_TIME,
    **_below(
        "limits",
        {
            "http_max_conns_per_client": _COUNT,
            "rpc_max_conns_per_client": _COUNT,
            "https_handshake_timeout": _HANDSHAKE,
            "rpc_handshake_timeout": _HANDSHAKE,
        },
    ),
    **_below(
        "telemetry",
        {
            "collection_interval": _AT_LEAST_1S,
            "prefix_filter": Rules(),
            "statsite_address": TextBound(host_port),
            "statsd_address": TextBound(host_port),
            "datadog_address": TextBound(host_port),
            "datadog_tags": Each(filled("tag")),
            "otlp_endpoint": _URL,
            "otlp_headers": Headers(),
        },
    ),
    **_below("tls", _same(_PLAIN, *_CERTIFICATES)),
    **_below("consul", _same(_PLAIN, *_CERTIFICATES)),
    **_below("vault", _same(_PLAIN, *_CERTIFICATES)),
    "consul.address": TextBound(host_port_or_url, empty=False),
    "consul.auth": TextBound(login),
    "vault.address": TextBound(url, empty=False),
    "vault.jwt_auth_backend_path": filled("path"),
    "ui.label.text": _PLAIN,
    **_below(
        "audit.sink",
        {
            "type": one_of("file"),
            "format": one_of("json"),
            "delivery_guarantee": one_of("enforced", "best-effort"),
            "path": _ABSOLUTE,
            "rotate_bytes": _COUNT,
            "rotate_duration": _LENGTH,
            "rotate_max_files": _COUNT,
            "mode": Checked(parse_mode, empty=False),
        },
    ),
    "audit.filter.type": one_of("HTTPEvent"),
    "audit.filter.stages": Each(one_of(*Stage, "*")),
    **_below(
        "autopilot",
        {
            "last_contact_threshold": _SOME_TIME,
            "max_trailing_logs": _COUNT,
            "min_quorum": _COUNT,
            "server_stabilization_time": _LENGTH,
        },
    ),
}

_SERVER: dict[str, Bound] = {
    "bootstrap_expect": Whole(meaning="0: wait until an operator names a cluster"),
    "num_schedulers": Whole(0, MAX_WORKERS),
    "enabled_schedulers": Each(one_of(*SCHEDULER_TYPES)),
    **_same(
        _SOME_TIME,
        "node_gc_threshold",
        "job_gc_interval",
        "job_gc_threshold",
        "eval_gc_threshold",
        "batch_eval_gc_threshold",
        "deployment_gc_threshold",
        "acl_token_gc_threshold",
        "heartbeat_grace",
        "min_heartbeat_ttl",
        "failover_heartbeat_ttl",
    ),
    "max_heartbeats_per_second": Whole(above=0),
    **_JOIN,
    **_below("server_join", _JOIN),
    "job_max_priority": Whole(LEAST_MAX_PRIORITY, MOST_PRIORITY),
    "job_max_count": Whole(meaning="0: no limit"),
    "oidc_issuer": _URL,
    "cluster_key_file": _PLAIN,
    "plan_rejection_tracker.node_threshold": _ONE_OR_MORE,
    "plan_rejection_tracker.node_window": _SOME_TIME,
    "default_scheduler_config.scheduler_algorithm": one_of("binpack", "spread"),
    "search.limit_results": _ONE_OR_MORE,
    "search.min_term_length": _ONE_OR_MORE,
    "client_introduction.enforcement": one_of(*Enforcement),
    "client_introduction.default_identity_ttl": _SOME_TIME,
    "client_introduction.max_identity_ttl": _SOME_TIME,
}

_CLIENT: dict[str, Bound] = {
    "servers": _SERVERS,
    **_below("server_join", _JOIN),
    "node_class": _PLAIN,
    "node_pool": TextBound(node_pool),
    "meta": Names(meta_name),
    "chroot_env": Names(absolute, _ABSOLUTE),
    "network_interface": TextBound(interface),
    "network_speed": _COUNT,
    "preferred_address_family": one_of("ipv4", "ipv6"),
    **_same(_COUNT, "cpu_total_compute", "memory_total_mb", "disk_total_mb", "disk_free_mb"),
    "max_kill_timeout": _LENGTH,
    "min_dynamic_port": _GIVEN_PORT,
    "max_dynamic_port": _GIVEN_PORT,
    **_below("reserved", _same(_COUNT, "cpu", "memory", "disk")),
    "reserved.reserved_ports": _PORTS,
    "gc_interval": _SOME_TIME,
    "gc_parallel_destroys": _ONE_OR_MORE,
    "gc_disk_usage_threshold": _PERCENT,
    "gc_inode_usage_threshold": _PERCENT,
    "gc_max_allocs": _COUNT,
    **_below(
        "template",
        {
            "block_query_wait": _SOME_TIME,
            "wait.min": _LENGTH,
            "wait.max": _LENGTH,
            "wait_bounds.min": _LENGTH,
            "wait_bounds.max": _LENGTH,
            "nomad_retry.backoff": _SOME_TIME,
            "nomad_retry.max_backoff": _LENGTH,
        },
    ),
    **_below(
        "artifact",
        {
            **_same(_LENGTH, "http_read_timeout", "gcs_timeout", "git_timeout", "s3_timeout"),
            "http_max_size": _SIZE,
            "decompression_size_limit": _SIZE,
            "decompression_file_count_limit": _COUNT,
            "decompression_ratio_limit": _COUNT,
            "filesystem_isolation_extra_paths": Each(TextBound(extra_path, empty=False)),
            "set_environment_variables": TextBound(variable_names),
        },
    ),
    "host_volume.path": TextBound(absolute, empty=False),
    "host_volume_plugin_dir": _ABSOLUTE,
    "host_network.cidr": TextBound(cidr),
    "host_network.interface": TextBound(interface),
    "host_network.reserved_ports": _PORTS,
    "cni_path": TextBound(absolute_paths),
    "cni_config_dir": _ABSOLUTE,
    "bridge_network_name": TextBound(bridge_name),
    "bridge_network_subnet": subnet(4),
    "bridge_network_subnet_ipv6": subnet(6),
    "task_env_allow": Each(filled("name")),
}

_SOURCE: dict[str, Bound] = {
    "kind": one_of(*SourceKind),
    "ca_file": _PLAIN,
    "ref": filled("name of a ref"),
    "paths": Each(filled("pattern")),
    "exclude": Each(filled("pattern")),
    "namespace": filled("name"),
    "repository": TextBound(source_name),
    "var_files": Each(filled("path")),
    "poll_interval": Duration(MIN_POLL_INTERVAL_NS, MAX_DURATION_NS, zero=False),
    "policies": Each(filled("name")),
    "rollout_deadline": Duration(MIN_POLL_INTERVAL_NS, MAX_DURATION_NS, empty=True),
    "depends_on": Each(TextBound(source_name, empty=False)),
    "prune_max_share": Whole(0, 100, meaning="percent"),
    "prune_claims": one_of(*ClaimDeletion),
    "gates.windows": Each(Checked(parse_window, empty=False)),
    "gates.approvals": Whole(0, MAX_APPROVALS),
    "gates.health": one_of(*HealthAction),
    "gates.health_deadline": Duration(MIN_POLL_INTERVAL_NS, MAX_GATE_NS, empty=True),
    "drift.action": one_of(*DriftAction),
    "drift.delay": Duration(MIN_POLL_INTERVAL_NS, MAX_DURATION_NS, zero=False),
}

_LIMITS_OF_GITOPS: dict[str, Bound] = {
    **_same(
        _ONE_OR_MORE,
        "max_job_files",
        "max_tree_entries",
        "max_tree_depth",
        "max_refs",
        "parse_processes",
        "max_steps",
    ),
    **_same(
        _SOME_BYTES,
        "max_file_bytes",
        "max_push_bytes",
        "max_preview_bytes",
        "max_fetch_bytes",
        "max_mirror_bytes",
        "max_git_memory_bytes",
        "max_parsed_bytes",
        "parse_memory_bytes",
    ),
    **_same(
        _SOME_TIME,
        "list_timeout",
        "fetch_timeout",
        "silence_timeout",
        "pack_timeout",
        "mirror_timeout",
        "hold_timeout",
        "catch_up_timeout",
        "parse_timeout",
    ),
}

_GITOPS: dict[str, Bound] = {
    "proxy": Checked(check_proxy),
    **_same(_PLAIN, "ca_file", "ssh_known_hosts_file"),
    "no_proxy": Each(filled("host")),
    "local_paths": Each(TextBound(absolute, empty=False)),
    "webhook_secrets": Each(filled("secret")),
    **_below(
        "credential",
        _same(
            _PLAIN,
            "ssh_key_file",
            "ssh_known_hosts_file",
            "ca_file",
            "client_cert_file",
            "client_key_file",
        ),
    ),
    "credential.origin": Checked(origin_of, empty=False),
    "credential.proxy": TextBound(
        lambda text: "" if text == "none" else wrong_by(check_proxy, text)
    ),
    "credential.sources": Each(filled("name")),
    "credential.urls": Each(filled("URL")),
    **_below("limits", _LIMITS_OF_GITOPS),
    **_below("source", _SOURCE),
}

BOUNDS: Mapping[str, Bound] = {
    **_AGENT,
    **_below("server", _SERVER),
    **_below("client", _CLIENT),
    **_below("gitops", _GITOPS),
}


def problem_of(path: str, value: object) -> str:
    """Returns why the key of this path, as `client.reserved.cpu`, cannot have the value; "" if it
    can. The sentence goes on from the key's name."""
    bound = BOUNDS.get(path)
    return "" if bound is None else bound.problem(value)
