"""The table of configuration keys: every key of Nomad's agents, and orchgit's own.

A key without effect has the reason; the agent names it in one warning when it starts, and
`docs/configuration.md` lists it. A key with effect is a field of `schema.FileConfig`; a test
compares the two. Whether a block is strict, and which keys win with 0 or false, was recorded.
"""

from __future__ import annotations

from dataclasses import replace

from orchgit.configuration.keys import ConfigBlock, ConfigKey, Kind
from orchgit.configuration.own_keys import block_of
from orchgit.configuration.schema import GitopsSection

_NOT_IN_CONSUL = "agents and servers are not services of Consul"
_CONSUL_TOKENS = "services are registered with consul.token"
_NO_MESH = "there is no service mesh"
_VAULT_TOKENS = "tasks log in at Vault by their own identities"
_ENTERPRISE = "it belongs to Nomad Enterprise"
_RAFT = "orchgit's log has no such setting"
_PUSH = "metrics are scraped here (/v1/metrics), not sent"
_UI = "the pages of orchgit have no such setting"
_GOSSIP = "servers do not gossip: they reach each other through RPC and the log, with tls"
_EVENTS = "events are read from the replicated state, without a buffer"
_NO_CSI = "claims are released and plugins are forgotten at once"
_CLOUD = "no cloud is asked for facts"
_FIXED = "orchgit decides this by itself"
_UPDATES = "orchgit asks nobody for updates"
_DIRECTORY = "the directory is always below data_dir"
_HEADERS_HTTP2 = "the HTTP server speaks HTTP/1.1 only"
_WINDOWS = "there is no Windows here"
_KEYRING = "root keys are wrapped with server.cluster_key_file"


def _text(no_effect: str = "", shown_as: str = "") -> ConfigKey:
    return ConfigKey(Kind.TEXT, no_effect, shown_as)


def _whole(no_effect: str = "", shown_as: str = "") -> ConfigKey:
    return ConfigKey(Kind.INTEGER, no_effect, shown_as)


def _given(no_effect: str = "", shown_as: str = "") -> ConfigKey:
    return ConfigKey(Kind.GIVEN_INTEGER, no_effect, shown_as)


def _switch(no_effect: str = "", shown_as: str = "") -> ConfigKey:
    return ConfigKey(Kind.SWITCH, no_effect, shown_as)


def _given_switch(no_effect: str = "", shown_as: str = "") -> ConfigKey:
    return ConfigKey(Kind.GIVEN_SWITCH, no_effect, shown_as)


def _duration(no_effect: str = "", shown_as: str = "") -> ConfigKey:
    return ConfigKey(Kind.DURATION, no_effect, shown_as)


def _texts(no_effect: str = "", shown_as: str = "") -> ConfigKey:
    return ConfigKey(Kind.TEXTS, no_effect, shown_as)


def _replaced(no_effect: str = "", shown_as: str = "") -> ConfigKey:
    return ConfigKey(Kind.REPLACED_TEXTS, no_effect, shown_as)


def _map(no_effect: str = "", shown_as: str = "") -> ConfigKey:
    return ConfigKey(Kind.MAP, no_effect, shown_as)


_SERVER_JOIN = ConfigBlock(
    {
        "retry_join": _replaced(),
        "start_join": _replaced(),
        "retry_interval": _duration(),
        "retry_max": _whole(shown_as="RetryMaxAttempts"),
    },
    strict=True,
)

_SERVER = ConfigBlock(
    {
        "enabled": _switch(),
        "authoritative_region": _text("regions are not federated"),
        "bootstrap_expect": _whole(),
        "data_dir": _text(_DIRECTORY),
        "protocol_version": _whole(_FIXED, "-"),
        "raft_protocol": _whole(_RAFT),
        "raft_multiplier": _given(_RAFT),
        "num_schedulers": _given(),
        "enabled_schedulers": _texts(),
        "node_gc_threshold": _text(),
        "job_gc_interval": _text(),
        "job_gc_threshold": _text(),
        "eval_gc_threshold": _text(),
        "batch_eval_gc_threshold": _text(),
        "deployment_gc_threshold": _text(),
        "csi_volume_claim_gc_interval": _text(_NO_CSI),
        "csi_volume_claim_gc_threshold": _text(_NO_CSI),
        "csi_plugin_gc_threshold": _text(_NO_CSI),
        "acl_token_gc_threshold": _text(),
        "root_key_gc_interval": _text(_FIXED),
        "root_key_gc_threshold": _text(_FIXED),
        "root_key_rotation_threshold": _text(_FIXED),
        "heartbeat_grace": _duration(),
        "min_heartbeat_ttl": _duration(),
        "failover_heartbeat_ttl": _duration(),
        "max_heartbeats_per_second": ConfigKey(Kind.NUMBER),
        "start_join": _texts(),
        "retry_join": _texts(),
        "retry_max": _whole(shown_as="RetryMaxAttempts"),
        "retry_interval": _duration(),
        "server_join": _SERVER_JOIN,
        "rejoin_after_leave": _switch("a server that left joins again by server_join"),
        "non_voting_server": _switch(_ENTERPRISE),
        "redundancy_zone": _text(_ENTERPRISE),
        "upgrade_version": _text(_ENTERPRISE),
        "encrypt": _text(_GOSSIP, "-"),
        "enable_event_broker": _given_switch(_EVENTS),
        "event_buffer_size": _given(_EVENTS),
        "license_path": _text(_ENTERPRISE),
        "license_env": _text(_ENTERPRISE),
        "log_file": _text("log_file at the top of the file names it"),
        "deploy_query_rate_limit": ConfigKey(Kind.NUMBER, _FIXED, "DeploymentQueryRateLimit"),
        "plan_apply_pipeline": _given(_FIXED),
        "raft_boltdb": ConfigBlock(
            {"no_freelist_sync": _switch()}, no_effect=_RAFT, shown_as="RaftBoltConfig"
        ),
        "raft_logstore": ConfigBlock(
            {
                "backend": _text(),
                "disable_log_cache": _switch(),
                "boltdb": ConfigBlock({"no_freelist_sync": _switch()}),
                "wal": ConfigBlock({"segment_size_mb": _whole()}),
                "verification": ConfigBlock({"enabled": _switch(), "interval": _duration()}),
            },
            no_effect=_RAFT,
            shown_as="RaftLogStoreConfig",
        ),
        "raft_snapshot_threshold": _given(_RAFT),
        "raft_snapshot_interval": ConfigKey(Kind.TEXT, _RAFT),
        "raft_trailing_logs": _given(_RAFT),
        "job_default_priority": _given("jobs say their priority; 50 is the default"),
        "job_max_priority": _given(),
        "job_max_count": _given(),
        "job_max_source_size": _text("sources are bounded by the size of a request"),
        "job_tracked_versions": _given("six versions of a job are kept"),
        "oidc_issuer": _text(),
        "start_timeout": _text(_FIXED),
        "plan_rejection_tracker": ConfigBlock(
            {"enabled": _given_switch(), "node_threshold": _whole(), "node_window": _duration()},
            strict=True,
        ),
        "default_scheduler_config": ConfigBlock(
            {
                "scheduler_algorithm": _text(),
                "memory_oversubscription_enabled": _switch(),
                "reject_job_registration": _switch(),
                "pause_eval_broker": _switch(),
                "numa_enabled": _switch(),
                "preemption_config": ConfigBlock(
                    {
                        "system_scheduler_enabled": _given_switch(),
                        "sysbatch_scheduler_enabled": _switch(),
                        "batch_scheduler_enabled": _switch(),
                        "service_scheduler_enabled": _switch(),
                    }
                ),
            },
            shown_as="-",
        ),
        "search": ConfigBlock(
            {
                "fuzzy_enabled": _given_switch(),
                "limit_query": _whole("every object is looked at"),
                "limit_results": _whole(),
                "min_term_length": _whole(),
            }
        ),
        "client_introduction": ConfigBlock(
            {
                "enforcement": _text(),
                "default_identity_ttl": _duration(),
                "max_identity_ttl": _duration(),
            }
        ),
        # orchgit's own
        "cluster_key_file": _text(shown_as="-"),
    },
    strict=True,
    joined=True,
)

_OTHER_RETRY = "`nomad_retry` counts for all that templates read"
_RETRY = ConfigBlock({"attempts": _given(), "backoff": _duration(), "max_backoff": _duration()})
_WAIT = ConfigBlock({"min": _duration(), "max": _duration()})

_CLIENT = ConfigBlock(
    {
        "enabled": _switch(),
        "state_dir": _text(_DIRECTORY),
        "alloc_dir": _text(_DIRECTORY),
        "alloc_mounts_dir": _text(_DIRECTORY),
        "servers": _texts(),
        "server_join": _SERVER_JOIN,
        "node_class": _text(),
        "node_pool": _text(),
        "node_max_allocs": _whole("a node takes what its resources allow"),
        "options": _map(),
        "meta": _map(),
        "chroot_env": _map(),
        "network_interface": _text(),
        "network_speed": _whole(),
        "preferred_address_family": _text(),
        "cpu_disable_dmidecode": _switch("dmidecode is never run"),
        "cpu_total_compute": _whole(shown_as="CpuCompute"),
        "memory_total_mb": _whole(shown_as="MemoryMB"),
        "disk_total_mb": _whole(),
        "disk_free_mb": _whole(),
        "reservable_cores": _text("all cores may be reserved"),
        "max_kill_timeout": _text(),
        "client_max_port": _whole(_FIXED),
        "client_min_port": _whole(_FIXED),
        "min_dynamic_port": _whole(),
        "max_dynamic_port": _whole(),
        "reserved": ConfigBlock(
            {
                "cpu": _whole(shown_as="CPU"),
                "memory": _whole(shown_as="MemoryMB"),
                "disk": _whole(shown_as="DiskMB"),
                "reserved_ports": _text(),
                "cores": _text("cores are not set aside; reserve `cpu`"),
            },
            strict=True,
        ),
        "gc_interval": _duration(),
        "gc_parallel_destroys": _whole(),
        "gc_disk_usage_threshold": ConfigKey(Kind.NUMBER),
        "gc_inode_usage_threshold": ConfigKey(Kind.NUMBER),
        "gc_max_allocs": _whole(),
        "gc_volumes_on_node_gc": _switch("volumes of a node that is gone are deleted by hand"),
        "no_host_uuid": _given_switch("a node's id is always random"),
        "disable_remote_exec": _switch(),
        "template": ConfigBlock(
            {
                "function_denylist": _replaced(),
                "function_blacklist": _replaced(),
                "disable_file_sandbox": _switch(shown_as="DisableSandbox"),
                "max_stale": _duration("templates read from the leader, and nothing is stale"),
                "block_query_wait": _duration(shown_as="BlockQueryWaitTime"),
                "wait": _WAIT,
                "wait_bounds": _WAIT,
                "consul_retry": replace(_RETRY, no_effect=_OTHER_RETRY),
                "vault_retry": replace(_RETRY, no_effect=_OTHER_RETRY),
                "nomad_retry": ConfigBlock(
                    {**_RETRY.keys, "attempts": _given("reads are tried until they succeed")}
                ),
                "use_client_consul_token": _switch(),
            },
            shown_as="TemplateConfig",
        ),
        "artifact": ConfigBlock(
            {
                "http_read_timeout": _text(),
                "http_max_size": _text(),
                "gcs_timeout": _text(),
                "git_timeout": _text(),
                "hg_timeout": _text("Mercurial sources are refused"),
                "s3_timeout": _text(),
                "decompression_size_limit": _text(),
                "decompression_file_count_limit": _given(),
                "disable_artifact_inspection": _switch("what is unpacked is always inspected"),
                "disable_filesystem_isolation": _switch(),
                "filesystem_isolation_extra_paths": _replaced(),
                "set_environment_variables": _text(),
                "decompression_ratio_limit": _given(shown_as="-"),
            }
        ),
        "host_volume": ConfigBlock(
            {"path": _text(), "read_only": _switch()}, labelled=True, replaced=True
        ),
        "host_volumes_dir": _text(_DIRECTORY),
        "host_volume_plugin_dir": _text(),
        "host_network": ConfigBlock(
            {"cidr": _text(), "interface": _text(), "reserved_ports": _text()},
            labelled=True,
            replaced=True,
            shown_as="HostNetworks",
        ),
        "bind_wildcard_default_host_network": _given_switch(),
        "cni_path": _text(),
        "cni_config_dir": _text(),
        "bridge_network_name": _text(),
        "bridge_network_subnet": _text(),
        "bridge_network_subnet_ipv6": _text(shown_as="BridgeNetworkSubnetIPv6"),
        "bridge_network_hairpin_mode": _switch(),
        "cgroup_parent": _text(_FIXED),
        "nomad_service_discovery": _given_switch("services are always registered"),
        "common_plugin_dir": _text("drivers are Python packages"),
        "fingerprint": ConfigBlock(
            {
                "retry_attempts": _whole(),
                "retry_interval": _duration(),
                "exit_on_failure": _switch(),
            },
            labelled=True,
            no_effect=_CLOUD,
            shown_as="Fingerprinters",
        ),
        "drain_on_shutdown": ConfigBlock(
            {"deadline": _text(), "force": _switch(), "ignore_system_jobs": _switch()},
            no_effect="a stopping agent leaves its tasks running",
            shown_as="Drain",
        ),
        "users": ConfigBlock(
            {
                "dynamic_user_min": _given(shown_as="MinDynamicUser"),
                "dynamic_user_max": _given(shown_as="MaxDynamicUser"),
            },
            no_effect="tasks run as the users they name",
        ),
        "default_ineligible": _switch(),
        "log_file": _text("log_file at the top of the file names it"),
        "stats": ConfigBlock({}, no_effect=_FIXED, shown_as="-"),
        # orchgit's own
        "task_env_allow": _texts(shown_as="-"),
    },
    strict=True,
    joined=True,
)

_IDENTITY = ConfigBlock(
    {
        "aud": _texts(),
        "env": _switch(),
        "file": _switch(),
        "ttl": _text(),
        "extra_claims": _map(),
    },
    shown_as="-",
)

_CONSUL_BLOCK = ConfigBlock(
    {
        "name": _text(),
        "address": _text(shown_as="Addr"),
        "auth": _text(),
        "auto_advertise": _given_switch(_NOT_IN_CONSUL),
        "ca_file": _text(shown_as="CAFile"),
        "cert_file": _text(),
        "key_file": _text(),
        "checks_use_advertise": _given_switch(_NOT_IN_CONSUL),
        "namespace": _text(),
        "ssl": _given_switch(shown_as="EnableSSL"),
        "verify_ssl": _given_switch(shown_as="VerifySSL"),
        "share_ssl": _given_switch(_CONSUL_TOKENS, shown_as="ShareSSL"),
        "tags": _replaced(_NOT_IN_CONSUL),
        "timeout": _duration(_FIXED),
        "token": _text(shown_as="-"),
        "client_auto_join": _given_switch(_NOT_IN_CONSUL),
        "client_service_name": _text(_NOT_IN_CONSUL),
        "client_http_check_name": _text(_NOT_IN_CONSUL),
        "client_failures_before_critical": _whole(_NOT_IN_CONSUL),
        "client_failures_before_warning": _whole(_NOT_IN_CONSUL),
        "grpc_address": _text(_NO_MESH, shown_as="GRPCAddr"),
        "grpc_ca_file": _text(_NO_MESH, shown_as="GRPCCAFile"),
        "service_auth_method": _text(_CONSUL_TOKENS, shown_as="ServiceIdentityAuthMethod"),
        "task_auth_method": _text(_CONSUL_TOKENS, shown_as="TaskIdentityAuthMethod"),
        "server_service_name": _text(_NOT_IN_CONSUL),
        "server_http_check_name": _text(_NOT_IN_CONSUL),
        "server_serf_check_name": _text(_NOT_IN_CONSUL),
        "server_rpc_check_name": _text(_NOT_IN_CONSUL, shown_as="ServerRPCCheckName"),
        "server_auto_join": _given_switch(_NOT_IN_CONSUL),
        "server_failures_before_critical": _whole(_NOT_IN_CONSUL),
        "server_failures_before_warning": _whole(_NOT_IN_CONSUL),
        "service_identity": replace(_IDENTITY, no_effect=_CONSUL_TOKENS),
        "task_identity": replace(_IDENTITY, no_effect=_CONSUL_TOKENS),
        "allow_unauthenticated": _given_switch(_CONSUL_TOKENS, shown_as="-"),
    },
    repeated=True,
    shown_as="Consuls",
)

_VAULT_BLOCK = ConfigBlock(
    {
        "name": _text(),
        "enabled": _given_switch(),
        "address": _text(shown_as="Addr"),
        "namespace": _text(),
        "jwt_auth_backend_path": _text(shown_as="JWTAuthBackendPath"),
        "ca_file": _text(shown_as="TLSCaFile"),
        "ca_path": _text("name one file in ca_file", shown_as="TLSCaPath"),
        "cert_file": _text(shown_as="TLSCertFile"),
        "key_file": _text(shown_as="TLSKeyFile"),
        "tls_server_name": _text(shown_as="TLSServerName"),
        "tls_skip_verify": _given_switch(shown_as="TLSSkipVerify"),
        "create_from_role": _text(shown_as="Role"),
        "token": _text(_VAULT_TOKENS, shown_as="-"),
        "task_token_ttl": _text(_VAULT_TOKENS, shown_as="-"),
        "allow_unauthenticated": _given_switch(_VAULT_TOKENS, shown_as="-"),
        "default_identity": replace(
            _IDENTITY, no_effect="a task names its identity itself: identity vault_default"
        ),
    },
    repeated=True,
    shown_as="Vaults",
)

_TELEMETRY = ConfigBlock(
    {
        "disable_hostname": _switch("names of gauges never have the host's name here"),
        "use_node_name": _switch("names of gauges never have the node's name here"),
        "collection_interval": ConfigKey(Kind.DURATION_TEXT),
        "in_memory_collection_interval": ConfigKey(
            Kind.DURATION_TEXT, "values are read when they are scraped"
        ),
        "in_memory_retention_period": ConfigKey(
            Kind.DURATION_TEXT, "values are read when they are scraped"
        ),
        "publish_allocation_metrics": _switch(),
        "publish_node_metrics": _switch(),
        "include_alloc_metadata_in_metrics": _switch("metadata are no labels here"),
        "allowed_metadata_keys_in_metrics": _replaced("metadata are no labels here"),
        "filter_default": _given_switch(),
        "prefix_filter": _replaced(),
        "disable_dispatched_job_summary_metrics": _switch(),
        "disable_quota_utilization_metrics": _switch(),
        "disable_allocation_hook_metrics": _switch(),
        "disable_rpc_rate_metrics_labels": _switch(
            "there are no metrics of RPC", "DisableRPCRateMetricsLabels"
        ),
        "prometheus_metrics": _switch(),
        "statsite_address": _text(shown_as="StatsiteAddr"),
        "statsd_address": _text(shown_as="StatsdAddr"),
        "datadog_address": _text(shown_as="DataDogAddr"),
        "datadog_tags": _replaced(shown_as="DataDogTags"),
        "circonus_api_token": _text(_PUSH, "-"),
        "circonus_api_app": _text(_PUSH),
        "circonus_api_url": _text(_PUSH),
        "circonus_submission_interval": _text(_PUSH),
        "circonus_submission_url": _text(_PUSH, "CirconusCheckSubmissionURL"),
        "circonus_check_id": _text(_PUSH),
        "circonus_check_force_metric_activation": _text(_PUSH),
        "circonus_check_instance_id": _text(_PUSH),
        "circonus_check_search_tag": _text(_PUSH),
        "circonus_check_display_name": _text(_PUSH),
        "circonus_check_tags": _text(_PUSH),
        "circonus_broker_id": _text(_PUSH),
        "circonus_broker_select_tag": _text(_PUSH),
        # orchgit's own
        "otlp_endpoint": _text(shown_as="-"),
        "otlp_headers": _map(shown_as="-"),
    },
    strict=True,
    joined=True,
)

_ADDRESSES = {"http": _text(), "rpc": _text(), "serf": _text()}

CONFIGURATION = ConfigBlock(
    {
        "region": _text(),
        "datacenter": _text(),
        "name": _text(shown_as="NodeName"),
        "data_dir": _text(),
        "plugin_dir": _text("drivers are Python packages, found through entry points"),
        "bind_addr": _text(),
        "log_level": _text(),
        "log_json": _switch(),
        "log_file": _text(),
        "log_include_location": _switch("lines have the component instead of file and line"),
        "log_rotate_bytes": _whole(),
        "log_rotate_duration": _text(),
        "log_rotate_max_files": _whole(),
        "enable_syslog": _switch("lines go to standard error, which systemd keeps, and log_file"),
        "syslog_facility": _text("lines go to standard error, which systemd keeps, and log_file"),
        "eventlog": ConfigBlock({"enabled": _switch(), "level": _text()}, no_effect=_WINDOWS),
        "enable_debug": _switch("there are no debug endpoints"),
        "leave_on_interrupt": _switch(shown_as="LeaveOnInt"),
        "leave_on_terminate": _switch(shown_as="LeaveOnTerm"),
        "disable_update_check": _switch(_UPDATES),
        "disable_anonymous_signature": _switch(_UPDATES),
        "http_api_response_headers": _map(shown_as="HTTPAPIResponseHeaders"),
        "http_disable_http2": _switch(_HEADERS_HTTP2, "-"),
        "http_disable_websocket_origin_check": _switch(
            "the origin of websockets is always checked", "-"
        ),
        "ports": ConfigBlock(
            {"http": _whole(), "rpc": _whole(), "serf": _whole()},
            strict=True,
        ),
        "addresses": ConfigBlock(_ADDRESSES, strict=True),
        "advertise": ConfigBlock(_ADDRESSES, strict=True, shown_as="AdvertiseAddrs"),
        "server": _SERVER,
        "client": _CLIENT,
        "acl": ConfigBlock(
            {
                "enabled": _switch(),
                "token_ttl": _duration("a token that was taken away is refused at once"),
                "policy_ttl": _duration("a policy that was changed counts at once"),
                "role_ttl": _duration("a role that was changed counts at once"),
                "replication_token": _text("regions are not federated"),
                "token_min_expiration_ttl": _duration(),
                "token_max_expiration_ttl": _duration(),
            },
            strict=True,
            shown_as="ACL",
        ),
        "tls": ConfigBlock(
            {
                "http": _switch(shown_as="EnableHTTP"),
                "rpc": _given_switch(shown_as="EnableRPC"),
                "ca_file": _text(shown_as="CAFile"),
                "cert_file": _text(),
                "key_file": _text(),
                "verify_https_client": _switch(),
                "verify_server_hostname": _given_switch(),
                "rpc_upgrade_mode": _switch("plain RPC is refused where certificates are set"),
                "tls_cipher_suites": _text("OpenSSL's own choice is taken"),
                "tls_min_version": _text("TLS 1.2 is the oldest version"),
                "tls_prefer_server_cipher_suites": _switch("OpenSSL's own choice is taken", "-"),
            },
            strict=True,
            shown_as="TLSConfig",
        ),
        "limits": ConfigBlock(
            {
                "http_max_conns_per_client": _given(),
                "https_handshake_timeout": _text(shown_as="HTTPSHandshakeTimeout"),
                "rpc_handshake_timeout": _text(),
                "rpc_max_conns_per_client": _given(),
            }
        ),
        "rpc": ConfigBlock(
            {
                "accept_backlog": _whole(),
                "keep_alive_interval": _duration(),
                "connection_write_timeout": _duration(),
                "max_stream_window_size": _whole(shown_as="-"),
                "stream_open_timeout": _duration(),
                "stream_close_timeout": _duration(),
                "dial_timeout": _duration(),
            },
            no_effect="gRPC has time limits of its own",
        ),
        "telemetry": _TELEMETRY,
        "consul": _CONSUL_BLOCK,
        "vault": _VAULT_BLOCK,
        "ui": ConfigBlock(
            {
                "enabled": _given_switch(),
                "show_cli_hints": _given_switch(_UI),
                "content_security_policy": ConfigBlock(
                    {
                        name: _replaced()
                        for name in (
                            "connect_src",
                            "default_src",
                            "form_action",
                            "frame_ancestors",
                            "img_src",
                            "script_src",
                            "style_src",
                        )
                    },
                    no_effect=_UI,
                ),
                "consul": ConfigBlock({"ui_url": _text(shown_as="BaseUIURL")}, no_effect=_UI),
                "vault": ConfigBlock({"ui_url": _text(shown_as="BaseUIURL")}, no_effect=_UI),
                "label": ConfigBlock(
                    {
                        "text": _text(),
                        "background_color": _text(_UI),
                        "text_color": _text(_UI),
                    }
                ),
            }
        ),
        "audit": ConfigBlock(
            {
                "enabled": _given_switch(),
                "sink": ConfigBlock(
                    {
                        "type": _text(),
                        "delivery_guarantee": _text(),
                        "format": _text(),
                        "path": _text(),
                        "rotate_bytes": _whole(),
                        "rotate_duration": _text(),
                        "rotate_max_files": _whole(),
                        "mode": _text(),
                    },
                    labelled=True,
                    shown_as="-",
                ),
                "filter": ConfigBlock(
                    {
                        "type": _text(),
                        "endpoints": _texts(),
                        "stages": _texts(),
                        "operations": _texts(),
                    },
                    labelled=True,
                    shown_as="-",
                ),
            },
            strict=True,
        ),
        "autopilot": ConfigBlock(
            {
                "cleanup_dead_servers": _given_switch(),
                "last_contact_threshold": _duration(),
                "max_trailing_logs": _whole(),
                "min_quorum": _whole(),
                "server_stabilization_time": _duration(),
                "enable_redundancy_zones": _given_switch(_ENTERPRISE),
                "disable_upgrade_migration": _given_switch(_ENTERPRISE),
                "enable_custom_upgrades": _given_switch(_ENTERPRISE),
            },
            strict=True,
        ),
        "sentinel": ConfigBlock(
            {
                "import": ConfigBlock({"path": _text(), "args": _texts()}, labelled=True),
                "additional_enabled_modules": _texts(),
            },
            no_effect=_ENTERPRISE,
            shown_as="-",
        ),
        "reporting": ConfigBlock(
            {
                "address": _text(shown_as="-"),
                "export_interval": _duration(),
                "snapshot_retention_time": _duration(),
                "disable_product_usage_reporting": _given_switch(shown_as="DisableUsageReporting"),
                "license": ConfigBlock({"enabled": _given_switch()}),
            },
            no_effect=_ENTERPRISE,
        ),
        "keyring": ConfigBlock(
            {"name": _text(), "active": _switch()},
            labelled=True,
            no_effect=_KEYRING,
            shown_as="-",
        ),
        "plugin": ConfigBlock(
            {
                "args": _texts("drivers are started without arguments"),
                "config": ConfigKey(Kind.ANY),
            },
            labelled=True,
            replaced=True,
            shown_as="-",
        ),
        # orchgit's own
        "insecure_http": _switch(shown_as="-"),
        "http_allowed_hosts": _texts(shown_as="-"),
        "gitops": block_of(GitopsSection),
    },
    strict=True,
)
