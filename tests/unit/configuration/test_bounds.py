"""Values that cannot work: each is refused with its place, all of them at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from orchgit.cli.commands.agent import agent
from orchgit.configuration.bounds import BOUNDS
from orchgit.configuration.documented import CONFIGURATION
from orchgit.configuration.file import read_config
from orchgit.configuration.keys import ConfigBlock, Kind
from orchgit.configuration.validation import validate
from orchgit.errors import InvalidInputError

LONG = "x" * 300
NUL = '"a\\u0000b"'
CERTIFICATES = {name: [NUL] for name in ("ca_file", "cert_file", "key_file")}
WRONG: dict[str, dict[str, list[str]]] = {
    "": {
        "region": ['""', '" "', '"a\\nb"', f'"{LONG}"'],
        "datacenter": ['""', '"dc*"', '"a\\tb"'],
        "name": ['"a\\nb"'],
        "data_dir": ['"a\\nb"'],
        "bind_addr": [
            '""', '"300.1.1.1"', '"127.0.0.1:4646"', '"[::1]"', '"a b"', '"no host"', '"-x"',
            '"{{ GetPrivateIP"', '"{{ nonsense }}"', '"{{ GetInterfaceIP \\"nosuch0\\" }}"',
        ],
        "log_level": ['""', '"LOUD"', '"5"'],
        "log_file": [NUL],
        "log_rotate_bytes": ["-1"],
        "log_rotate_duration": ['"-1s"', '"soon"', '"5"'],
        "log_rotate_max_files": ["-1"],
        "http_api_response_headers": ['{ "Content-Length" = "1" }', '{ "a b" = "1" }'],
        "http_allowed_hosts": ['["https://a"]', '[""]'],
    },
    "ports": {name: ["-1", "65536", "4294967296"] for name in ("http", "rpc", "serf")},
    "addresses": {
        "http": ['"127.0.0.1 300.0.0.1"', '"127.0.0.1:80"', '"{{"'],
        "rpc": ['"127.0.0.1 127.0.0.2"', '"1.2.3"'],
        "serf": ['"127.0.0.1 127.0.0.2"', '"/run/x"'],
    },
    "advertise": {
        name: ['"nonsense:x"', '"0.0.0.0"', '"[::]:1"', '"a:0"', '"a:99999"', '"a b"', '"1.2.3"']
        for name in ("http", "rpc", "serf")
    },
    "server": {
        "bootstrap_expect": ["-1"],
        "cluster_key_file": [NUL],
        "num_schedulers": ["-1", "65", "1000000"],
        "enabled_schedulers": ['["nonsense"]'],
        **{
            name: ['"-1s"', '"0s"', '"nonsense"', '""']
            for name in (
                "node_gc_threshold", "job_gc_interval", "job_gc_threshold", "eval_gc_threshold",
                "batch_eval_gc_threshold", "deployment_gc_threshold", "acl_token_gc_threshold",
            )
        },
        **{
            name: ['"-1s"', '"0s"']
            for name in ("heartbeat_grace", "min_heartbeat_ttl", "failover_heartbeat_ttl")
        },
        "max_heartbeats_per_second": ["0", "-1", '"nan"', '"inf"'],
        "retry_join": ['["provider=aws"]', '[""]', '["a:x"]'],
        "start_join": ['["a:99999"]'],
        "retry_interval": ['"0s"', '"-1s"'],
        "retry_max": ["-1"],
        "job_max_count": ["-1"],
        "job_max_priority": ["0", "99", "32767"],
        "oidc_issuer": ['"nonsense"', '"ftp://a"', '"https://"'],
    },
    "server { server_join": {
        "retry_join": ['["provider=aws"]'],
        "retry_interval": ['"0s"'],
        "retry_max": ["-1"],
    },
    "server { plan_rejection_tracker": {"node_threshold": ["0", "-1"], "node_window": ['"0s"']},
    "server { default_scheduler_config": {"scheduler_algorithm": ['"best"']},
    "server { search": {"limit_results": ["0", "-1"], "min_term_length": ["0"]},
    "server { client_introduction": {
        "enforcement": ['"maybe"'],
        "default_identity_ttl": ['"0s"'],
        "max_identity_ttl": ['"-1s"'],
    },
    "client": {
        "servers": ['["a:0"]', '[""]'],
        "node_class": ['"a\\nb"'],
        "node_pool": ['"a b"', '"all"', f'"{LONG}"'],
        "meta": ['{ "a..b" = "1" }', '{ ".a" = "1" }'],
        "chroot_env": ['{ "bin" = "/bin" }', '{ "/bin" = "bin" }'],
        "network_interface": ['"eth0/1"', '"a name that is too long"', '"{{ x"'],
        "network_speed": ["-1"],
        "preferred_address_family": ['"ipv5"'],
        "cpu_total_compute": ["-1"],
        "memory_total_mb": ["-1"],
        "disk_total_mb": ["-1"],
        "disk_free_mb": ["-1"],
        "max_kill_timeout": ['"-1s"', '"x"'],
        "min_dynamic_port": ["0", "-1", "65536"],
        "max_dynamic_port": ["0", "-1", "65536"],
        "gc_interval": ['"0s"', '"-1m"'],
        "gc_parallel_destroys": ["0", "-1"],
        "gc_disk_usage_threshold": ["0", "-1", "101", '"nan"'],
        "gc_inode_usage_threshold": ["0", "100.5"],
        "gc_max_allocs": ["-1"],
        "host_volume_plugin_dir": ['"relative"'],
        "cni_path": ['"relative"', '"/a:b"'],
        "cni_config_dir": ['"relative"'],
        "bridge_network_name": ['"a/b"', '"a name that is too long"'],
        "bridge_network_subnet": ['"x"', '"10.0.0.0/31"', '"fd00::/64"'],
        "bridge_network_subnet_ipv6": ['"10.0.0.0/24"', '"x"'],
        "task_env_allow": ['[""]'],
    },
    "client { reserved": {
        "cpu": ["-1"],
        "memory": ["-1"],
        "disk": ["-1"],
        "reserved_ports": ['"x"', '"1-"', '"70000"', '"9-8"', '"1-2-3"'],
    },
    "client { template": {"block_query_wait": ['"0s"', '"-1s"']},
    "client { template { wait": {"min": ['"-1s"'], "max": ['"-1s"']},
    "client { template { wait_bounds": {"min": ['"-1s"'], "max": ['"-1s"']},
    "client { template { nomad_retry": {"backoff": ['"0s"'], "max_backoff": ['"-1s"']},
    "client { artifact": {
        "http_read_timeout": ['"-1s"', '"x"', '""'],
        "git_timeout": ['"-1s"'],
        "gcs_timeout": ['"-1s"'],
        "s3_timeout": ['"-1s"'],
        "http_max_size": ['"x"', '"-1"', '"1XB"', '""'],
        "decompression_size_limit": ['"x"'],
        "decompression_file_count_limit": ["-1"],
        "decompression_ratio_limit": ["-1"],
        "filesystem_isolation_extra_paths": ['["/etc"]'],
        "set_environment_variables": ['"A B"', '"A,,B"'],
    },
    'client { host_volume "v"': {"path": ['""', '"relative"']},
    'client { host_network "n"': {
        "cidr": ['"x"', '"10.0.0.0/40"'],
        "interface": ['"a/b"'],
        "reserved_ports": ['"x"'],
    },
    "acl": {name: ['"0s"', '"-1s"'] for name in (
        "token_min_expiration_ttl", "token_max_expiration_ttl",
    )},
    "limits": {
        "http_max_conns_per_client": ["-1"],
        "rpc_max_conns_per_client": ["-1"],
        "https_handshake_timeout": ['"-1s"', '"2h"', '""'],
        "rpc_handshake_timeout": ['"x"'],
    },
    "telemetry": {
        "collection_interval": ['"0s"', '"10ms"', '"-1s"'],
        "prefix_filter": ['["nomad"]', '["+"]'],
        "statsd_address": ['"nohost"', '"a:0"', '"a:x"'],
        "statsite_address": ['"nohost"'],
        "datadog_address": ['"nohost"'],
        "datadog_tags": ['[""]'],
        "otlp_endpoint": ['"127.0.0.1:4318"', '"ftp://a"'],
        "otlp_headers": ['{ "a b" = "c" }'],
    },
    "tls": CERTIFICATES,
    "consul": {"address": ['""', '"ftp://a"', '"a b"'], "auth": ['"nobody"'], **CERTIFICATES},
    "vault": {"address": ['""', '"a:8200"'], "jwt_auth_backend_path": ['""'], **CERTIFICATES},
    "ui { label": {"text": ['"a\\nb"']},
    'audit { sink "s"': {
        "type": ['"syslog"'],
        "format": ['"text"'],
        "delivery_guarantee": ['"maybe"'],
        "path": ['"relative"'],
        "rotate_bytes": ["-1"],
        "rotate_duration": ['"-1s"'],
        "rotate_max_files": ["-1"],
        "mode": ['"rw"', '""'],
    },
    'audit { filter "f"': {"type": ['"Other"'], "stages": ['["Nonsense"]']},
    "autopilot": {
        "last_contact_threshold": ['"0s"', '"-1s"'],
        "max_trailing_logs": ["-1"],
        "min_quorum": ["-1"],
        "server_stabilization_time": ['"-1s"'],
    },
    "gitops": {
        "proxy": ['"proxy:3128"'],
        "ca_file": [NUL],
        "ssh_known_hosts_file": [NUL],
        "no_proxy": ['[""]'],
        "local_paths": ['["relative"]', '[""]'],
        "webhook_secrets": ['{ a = "" }'],
    },
    "gitops { limits": {
        "max_file_bytes": ['"x"', '"0"', '"-1"'],
        "max_job_files": ["0", "-1"],
        "parse_processes": ["0", "-1"],
        "max_steps": ["-1"],
        "fetch_timeout": ['"0s"', '"-1s"'],
    },
    'gitops { credential "c"': {
        "origin": ['""', '"https://h/path"', '"h"'],
        "proxy": ['"proxy:1"'],
        "sources": ['[""]'],
        **{
            name: [NUL]
            for name in (
                "ssh_key_file", "ssh_known_hosts_file", "ca_file", "client_cert_file",
                "client_key_file",
            )
        },
    },
    'gitops { source "s"': {
        "kind": ['"other"'],
        "ca_file": [NUL],
        "ref": ['""'],
        "paths": ['[""]'],
        "namespace": ['""'],
        "repository": ['"Not A Name"'],
        "poll_interval": ['"10ms"', '"721h"', '"0s"', '"-1s"'],
        "rollout_deadline": ['"1ms"', '"-1s"'],
        "depends_on": ['["Not A Name"]'],
        "prune_max_share": ["-1", "101"],
        "prune_claims": ['"maybe"'],
    },
    'gitops { source "s" { gates': {
        "windows": ['["nonsense"]'],
        "approvals": ["-1", "21"],
        "health": ['"other"'],
        "health_deadline": ['"1ms"'],
    },
    'gitops { source "s" { drift': {"action": ['"other"'], "delay": ['"0s"']},
}  # fmt: skip
FREE = {
    "client.options", "plugin.config",
    "client.template.function_denylist", "client.template.function_blacklist",
    "consul.name", "consul.namespace", "consul.token",
    "vault.name", "vault.namespace", "vault.tls_server_name", "vault.create_from_role",
    "audit.filter.endpoints", "audit.filter.operations",
    "gitops.ca_pem", "gitops.ssh_known_hosts",
    "gitops.credential.username", "gitops.credential.password",
    "gitops.credential.ssh_known_hosts", "gitops.credential.ca_pem",
    "gitops.source.url", "gitops.source.region", "gitops.source.tag_prefix",
    "gitops.source.variables", "gitops.source.credential",
    "gitops.source.ca_pem", "gitops.source.webhook_secret", "gitops.source.drift.ignore",
}  # fmt: skip
"""Keys that take every text, or whose values are judged with others or by the files they name."""


def config_of(block: str, key: str, value: str) -> str:
    opened = f"{block} {{" if block else ""
    return f"{opened} {key} = {value} {'}' * opened.count('{')}\n"


@pytest.mark.parametrize("block", WRONG)
def test_value_that_cannot_work_is_refused_with_its_place(tmp_path: Path, block: str) -> None:
    path = tmp_path / "agent.hcl"
    for key, value in ((key, value) for key, values in WRONG[block].items() for value in values):
        text = config_of(block, key, value)
        path.write_text(f"# Neither server nor client is enabled.\n{text}")
        with pytest.raises(InvalidInputError) as caught:
            pytest.fail(f"{text} is read as {read_config(path)}")
        head, *lines = str(caught.value).splitlines()
        assert head == "cannot use the configuration:"
        [line] = lines
        column = text.index(f" {key} = ") + len(f" {key} = ") + 1
        assert line.startswith(f"{path}:2:{column}: ")
        assert key in line


def test_all_faults_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    texts = {
        "a.hcl": 'regoin = "eu"\nbind_addr = "{{ GetPrivateIP"\nports { http = -1 }\n',
        "b.hcl": 'client {\n gc_max_allocs = -1\n host_volume "v" {}\n}\nports { rpc = "x" }\n',
        "c.hcl": 'plugin "raw_exec" {\n config { enbled = true }\n}\nserver {\n'
        ' retry_join = ["a"]\n server_join { retry_join = ["b"] }\n}\n',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInputError) as caught:
        read_config(tmp_path)
    places = [
        line.replace(str(tmp_path), "").split(": ")[0] for line in str(caught.value).splitlines()
    ]
    assert sorted(places[1:]) == [
        "/a.hcl:1:1",
        "/a.hcl:2:13",
        "/a.hcl:3:16",
        "/b.hcl:2:18",
        "/b.hcl:3:14",
        "/b.hcl:5:15",
        "/c.hcl:2:11",
        "/c.hcl:6:2",
    ]
    found = validate([str(tmp_path)])
    assert not found.valid
    for line in str(caught.value).splitlines()[1:]:
        assert any(each.endswith(line) for each in found.errors)


def test_validation_tells_faults_where_nothing_is_enabled(tmp_path: Path) -> None:
    path = tmp_path / "agent.hcl"
    path.write_text("client { gc_max_allocs = -1 }\n")
    found = validate([str(path)])
    assert not found.valid
    assert found.errors[-1].endswith(
        f"{path}:1:26: cannot use client.gc_max_allocs: it must not be negative, not -1"
    )


def test_limits_of_a_number_are_told(tmp_path: Path) -> None:
    path = tmp_path / "agent.hcl"
    path.write_text("client { gc_disk_usage_threshold = 180 }\nports { http = 65536 }\n")
    with pytest.raises(InvalidInputError) as caught:
        read_config(path)
    said = [line.partition(": it must ")[2] for line in str(caught.value).splitlines()[1:]]
    assert said == [
        "be more than 0 and at most 100 (percent), not 180.0",
        "be 0 to 65535, not 65536",
    ]


def test_meaning_of_a_file_that_ends_too_early_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "a.hcl").write_text('tls {\n rpc = true\n ca_file = "/x"\n}\n')
    (tmp_path / "b.hcl").write_text('tls {\n cert_file = "/x"\n')
    with pytest.raises(InvalidInputError) as caught:
        read_config(tmp_path)
    assert "lacks" not in str(caught.value)
    assert "b.hcl:" in str(caught.value)


def test_values_that_cannot_work_together_have_the_place_of_one(tmp_path: Path) -> None:
    path = tmp_path / "agent.hcl"
    path.write_text(
        "ports {\n http = 5000\n rpc = 5000\n}\n"
        "client {\n min_dynamic_port = 30000\n max_dynamic_port = 20000\n}\n"
        'acl {\n token_min_expiration_ttl = "48h"\n}\n'
        'client {\n template {\n wait {\n min = "2s"\n max = "1s"\n}\n}\n}\n'
        'gitops {\n source "a" { url = "" kind = "remote" }\n}\n'
    )
    with pytest.raises(InvalidInputError) as caught:
        read_config(path)
    lines = str(caught.value).replace(f"{path}:", "").splitlines()[1:]
    assert [line.split(": ")[0] for line in lines] == ["3:2", "7:2", "10:2", "14:2", "21:9"]


@pytest.mark.parametrize(
    "text",
    [
        'addresses { http = "127.0.0.1" rpc = "127.0.0.2" }\nports { http = 5000 rpc = 5000 }',
        "ports { http = 0 rpc = 0 serf = 0 }",
        "server { bootstrap_expect = 0 num_schedulers = 0 job_max_count = 0 }",
        'bind_addr = "::1"\nadvertise { http = "[::1]:80" rpc = "fe80::1" serf = "host.example" }',
        'client { node_pool = "" cni_path = "" bridge_network_name = "" network_interface = "" }',
        'limits { https_handshake_timeout = "0s" rpc_max_conns_per_client = 0 }',
        'client { meta = { "a.b" = "" } reserved { reserved_ports = "22,80-90" } }',
    ],
)
def test_value_with_a_meaning_is_taken(tmp_path: Path, text: str) -> None:
    path = tmp_path / "agent.hcl"
    path.write_text(text)
    read_config(path)


def test_bootstrap_expect_of_0_is_not_the_default(tmp_path: Path) -> None:
    path = tmp_path / "agent.hcl"
    path.write_text("server { bootstrap_expect = 0 }")
    assert read_config(path).server["join"].bootstrap_expect == 0
    path.write_text("server { enabled = true }")
    assert read_config(path).server["join"].bootstrap_expect is None


def test_empty_list_of_schedulers_is_the_default(tmp_path: Path) -> None:
    path = tmp_path / "agent.hcl"
    path.write_text("server { enabled_schedulers = [] }")
    assert "enabled_schedulers" not in read_config(path).server
    path.write_text('server { enabled_schedulers = ["batch"] }')
    assert read_config(path).server["enabled_schedulers"] == ("batch",)


def test_limit_of_0_is_no_limit(tmp_path: Path) -> None:
    path = tmp_path / "agent.hcl"
    path.write_text(
        'client {\n artifact {\n http_read_timeout = "0s"\n http_max_size = "0"\n'
        ' decompression_size_limit = "0"\n decompression_file_count_limit = 0\n}\n'
        ' template {\n nomad_retry {\n max_backoff = "0s"\n}\n}\n}\n'
    )
    settings = read_config(path).agent
    limits = settings["artifact"]
    assert limits.read_timeout_s > 86400
    assert min(limits.max_download_bytes, limits.max_unpacked_bytes, limits.max_files) > 1 << 60
    assert settings["template"].max_backoff_s > 86400


def bounded(block: ConfigBlock, prefix: str = "") -> list[str]:
    """The paths of keys with an effect that are no switches."""
    found: list[str] = []
    for name, key in block.keys.items():
        if key.no_effect:
            continue
        if isinstance(key, ConfigBlock):
            found += bounded(key, f"{prefix}{name}.")
        elif key.kind not in (Kind.SWITCH, Kind.GIVEN_SWITCH):
            found.append(prefix + name)
    return found


def test_each_key_has_a_bound_or_takes_everything() -> None:
    assert set(bounded(CONFIGURATION)) - FREE == set(BOUNDS) - FREE


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (["-http-port", "70000"], "cannot use -http-port: it must be 0 to 65535"),
        (["-bind", "{{ GetPrivateIP"], "cannot use -bind: the template"),
        (["-dc", "a*"], "cannot use -dc: it must not have"),
        (["-region", ""], "cannot use -region: it must not be empty"),
        (["-join", "a:x"], "cannot use -join: "),
        (["-bootstrap-expect", "-1"], "cannot use -bootstrap-expect: it must not be negative"),
        (["-network-speed", "-1"], "cannot use the flag for client.network_speed: it must not be"),
    ],
)
def test_option_is_held_to_the_bounds_of_its_key(options: list[str], wrong: str) -> None:
    result = CliRunner().invoke(agent, ["-dev", *options])
    assert result.exit_code
    assert wrong in f"{result.output}{result.exception}"
