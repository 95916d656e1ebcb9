"""Agent configuration files: HCL and JSON, unknown keys, documentation."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from orchgit.configuration.documented import CONFIGURATION
from orchgit.configuration.file import read_config
from orchgit.configuration.keys import ConfigBlock, ConfigKey, walk
from orchgit.configuration.own_keys import block_of
from orchgit.configuration.schema import FileConfig
from orchgit.configuration.settings import known_servers, with_join_options
from orchgit.control.leader_term import ControlConfig
from orchgit.control.plans.node_rejections import RejectionLimits
from orchgit.control.watchers.garbage import GarbageLimits
from orchgit.control.watchers.heartbeat_timers import HeartbeatLimits
from orchgit.errors import InvalidInputError
from orchgit.model.operator import PreemptionConfig
from orchgit.server.audit.settings import Stage
from orchgit.server.config import ServerConfig
from orchgit.server.membership.joining_rules import JoinConfig
from orchgit.wire.limits import Limits

DOCS = Path(__file__).parents[3] / "docs"

HCL = """
datacenter = "dc7"

client {
  enabled = true

  meta {
    rack = "r1"
  }

  host_volume "logs" {
    path = "/"
  }
}

plugin "raw_exec" {
  config {
    enabled = true
  }
}

gitops {
  webhook_secrets = { hook = "s" }

  source "site" {
    url           = "https://example.org/site.git"
    poll_interval = "1m"
  }
}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "agent.hcl"
    path.write_text(text)
    return path


def test_hcl_and_json_say_the_same(tmp_path: Path) -> None:
    from_hcl = read_config(written(tmp_path, HCL))
    tree = {
        "datacenter": "dc7",
        "client": {
            "enabled": True,
            "meta": {"rack": "r1"},
            "host_volume": {"logs": {"path": "/"}},
        },
        "plugin": {"raw_exec": {"config": {"enabled": True}}},
        "gitops": {
            "webhook_secrets": {"hook": "s"},
            "source": {"site": {"url": "https://example.org/site.git", "poll_interval": "1m"}},
        },
    }
    from_json = read_config(written(tmp_path, json.dumps(tree)))
    assert from_hcl == from_json
    assert from_hcl.agent["meta"] == {"rack": "r1"}
    assert from_hcl.agent["drivers"] == {"raw_exec": {"enabled": True}}
    [source] = from_hcl.server["sources"]
    assert (source.name, source.kind, source.poll_interval_ns) == ("site", "remote", 60 * 10**9)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("clinet {\n}\n", "clinet"),
        ("server {\n  enabled = 7\n}\n", "server.enabled"),
        ("datacenter = ?\n", "agent.hcl:1:14"),
        ("client {\n host_volume {\n}\n}\n", "needs one label"),
        ("acl {\n}\nacl {\n}\n", "given twice"),
        ('tls {\n  ca_file = "/nonexistent"\n}\n', "ca_file"),
        ('client {\n  gc_interval = "soon"\n}\n', "client.gc_interval"),
        ("{", "agent.hcl"),
        ('server {\n  heartbeat_grace = "soon"\n}\n', "server.heartbeat_grace"),
        ('server {\n  eval_gc_threshold = "0s"\n}\n', "more than zero"),
        ("server {\n  max_heartbeats_per_second = 0\n}\n", "max_heartbeats_per_second"),
        ("server {\n  plan_rejection_tracker {\n    nodes = 1\n  }\n}\n", "nodes"),
        (
            'server {\n  default_scheduler_config {\n    scheduler_algorithm = "best"\n  }\n}\n',
            "scheduler_algorithm",
        ),
    ],
)
def test_invalid_setting_is_named(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot") as caught:
        read_config(written(tmp_path, text))
    assert named in str(caught.value)


CONTROL = """
server {
  heartbeat_grace           = "30s"
  min_heartbeat_ttl         = "20s"
  max_heartbeats_per_second = 25
  failover_heartbeat_ttl    = "5m"
  job_gc_interval           = "1m"
  job_gc_threshold          = "1h"
  eval_gc_threshold         = "30m"
  batch_eval_gc_threshold   = "2h"
  deployment_gc_threshold   = "3h"
  node_gc_threshold         = "48h"
  acl_token_gc_threshold    = "2h"

  plan_rejection_tracker {
    enabled        = true
    node_threshold = 7
    node_window    = "10m"
  }

  default_scheduler_config {
    scheduler_algorithm             = "spread"
    memory_oversubscription_enabled = true

    preemption_config {
      batch_scheduler_enabled = true
    }
  }
}
"""


def test_limits_of_scheduling_heartbeats_and_garbage(tmp_path: Path) -> None:
    settings = read_config(written(tmp_path, CONTROL)).server
    control = settings["control"]
    assert control.heartbeats == HeartbeatLimits(
        min_ttl_s=20, grace_s=30, max_per_s=25, failover_s=300
    )
    assert control.garbage == GarbageLimits(
        interval_s=60,
        evaluation_age_s=1800,
        batch_evaluation_age_s=7200,
        job_age_s=3600,
        deployment_age_s=3 * 3600,
        node_age_s=48 * 3600,
        token_age_s=7200,
    )
    assert control.rejections == RejectionLimits(enabled=True, threshold=7, window_s=600)
    wanted = settings["scheduler_config"]
    assert (wanted.scheduler_algorithm, wanted.memory_oversubscription_enabled) == ("spread", True)
    assert wanted.preemption_config == PreemptionConfig(batch_scheduler_enabled=True)


def test_without_keys_the_limits_are_the_defaults(tmp_path: Path) -> None:
    settings = read_config(written(tmp_path, "")).server
    assert settings["control"] == ControlConfig()
    assert settings["scheduler_config"] is None


def test_settings_of_task_environment_and_artifacts_are_read(tmp_path: Path) -> None:
    text = (
        'client {\n  task_env_allow = ["PATH", "MY_*"]\n  artifact {\n'
        '    http_max_size = "512MiB"\n    http_read_timeout = "1m"\n'
        "    decompression_file_count_limit = 7\n"
        '    set_environment_variables = "HTTPS_PROXY, NO_PROXY"\n  }\n}\n'
    )
    settings = read_config(written(tmp_path, text)).agent
    assert settings["task_env_allow"] == ("PATH", "MY_*")
    limits = settings["artifact"]
    assert (limits.max_download_bytes, limits.read_timeout_s) == (512 << 20, 60)
    assert (limits.max_files, limits.max_unpacked_bytes) == (7, 100 * 10**9)
    assert limits.environment == ("HTTPS_PROXY", "NO_PROXY")
    assert "task_env_allow" not in read_config(written(tmp_path, "")).agent
    with pytest.raises(InvalidInputError, match="is no size"):
        read_config(
            written(tmp_path, 'client {\n  artifact {\n    http_max_size = "big"\n  }\n}\n')
        )


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"cannot read .*nowhere: no such file"):
        read_config(tmp_path / "nowhere")


def test_keys_with_effect_are_those_of_the_table() -> None:
    assert {path for path, key in walk(block_of(FileConfig)) if isinstance(key, ConfigKey)} == {
        path
        for path, key in walk(CONFIGURATION)
        if isinstance(key, ConfigKey) and not no_effect_of(path)
    }


def no_effect_of(path: str) -> str:
    """Why a key has no effect: its own reason, or that of a block around it."""
    block: ConfigKey | ConfigBlock = CONFIGURATION
    for name in path.split("."):
        assert isinstance(block, ConfigBlock)
        block = block.keys[name]
        if block.no_effect:
            return block.no_effect
    return ""


def test_documentation_lists_every_key_with_its_effect() -> None:
    operations = (DOCS / "operations.md").read_text()
    rows = re.findall(
        r"^\| `([a-z0-9_.]+)` \| ([^|]+) \|$", (DOCS / "configuration.md").read_text(), re.M
    )
    listed = {path: text.strip() for path, text in rows}
    for path, key in walk(CONFIGURATION):
        why = no_effect_of(path)
        if not why and not isinstance(key, ConfigBlock):
            assert path.rpartition(".")[2] in operations, path
        elif why and (outermost := key.no_effect):
            assert listed.pop(path, None) == outermost
    assert not listed, "the documentation lists keys that are not in the table"


def test_port_of_gossip_names_that_of_rpc_where_servers_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "agent.hcl"
    path.write_text(
        "ports {\n  rpc  = 5647\n  serf = 5648\n}\n"
        'server {\n  server_join {\n    retry_join = ["a:5648", "b:5647", '
        '"fd00::5648", "[fd00::1]:5648"]\n'
        "  }\n}\n"
    )
    wanted = ("a:5647", "b:5647", "fd00::5648", "[fd00::1]:5647")
    assert read_config(path).server["join"].retry_join == wanted


def test_settings_of_joining_are_read(tmp_path: Path) -> None:
    path = tmp_path / "agent.hcl"
    path.write_text(
        """
        leave_on_terminate = true
        server {
          enabled          = true
          bootstrap_expect = 3
          server_join {
            retry_join     = ["10.0.0.1", "10.0.0.2:4648"]
            start_join     = ["10.0.0.3"]
            retry_interval = "500ms"
            retry_max      = 7
          }
        }
        client {
          servers = ["10.0.0.9:5000"]
          server_join { retry_join = ["10.0.0.1:4648", "10.0.0.2"] }
        }
        """
    )
    read = read_config(path)
    join = read.server["join"]
    assert (join.bootstrap_expect, join.retry_interval_s, join.retry_max) == (3, 0.5, 7)
    assert join.retry_join == ("10.0.0.1", "10.0.0.2:4647")
    assert join.start_join == ("10.0.0.3",)
    assert read.server["leave_on_terminate"] is True
    wanted = ("10.0.0.9:5000", "10.0.0.1:4647", "10.0.0.2:4647")
    assert known_servers(read.file.client) == wanted


def test_older_place_of_retry_join_works_but_not_both(tmp_path: Path) -> None:
    path = tmp_path / "agent.hcl"
    path.write_text('server {\n retry_join = ["a"]\n retry_max = 2\n}\n')
    assert read_config(path).server["join"].retry_join == ("a",)
    path.write_text('server {\n retry_join = ["a"]\n server_join { retry_max = 2 }\n}\n')
    with pytest.raises(InvalidInputError, match="belong into that"):
        read_config(path)


def test_options_take_the_place_of_the_file_s_joining(tmp_path: Path) -> None:
    config = ServerConfig(data_dir=tmp_path, join=JoinConfig(3, ("a",)))
    changed = with_join_options(config, None, ("b", "c"), ())
    assert changed.join == JoinConfig(3, ("b", "c"))
    assert with_join_options(config, None, (), ()) is config


def test_join_address_of_wrong_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="provider=aws"):
        ServerConfig(data_dir=tmp_path, join=JoinConfig(retry_join=("provider=aws",)))
    with pytest.raises(InvalidInputError, match="either these or server_join"):
        ServerConfig(data_dir=tmp_path, join=JoinConfig(3), peers=("127.0.0.1:1",))


def test_limits_and_names_are_those_of_servers_and_of_agents(tmp_path: Path) -> None:
    path = tmp_path / "agent.hcl"
    path.write_text(
        """
        insecure_http      = true
        http_allowed_hosts = ["orchgit.example", "*.lan"]
        limits {
          http_max_conns_per_client = 7
          https_handshake_timeout   = "500ms"
          rpc_handshake_timeout     = "0s"
          rpc_max_conns_per_client  = 0
        }
        """
    )
    given = read_config(path)
    for settings in (given.server, given.agent):
        assert settings["insecure_http"]
        assert settings["http_allowed_hosts"] == ("orchgit.example", "*.lan")
        assert settings["limits"] == Limits(7, 0.5, 0.0, 0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "limits { http_max_conns_per_client = -1 }",
            "http_max_conns_per_client: it must not be neg",
        ),
        (
            "limits { rpc_max_conns_per_client = -5 }",
            "rpc_max_conns_per_client: it must not be neg",
        ),
        ('limits { https_handshake_timeout = "soon" }', "limits.https_handshake_timeout"),
        ('limits { rpc_handshake_timeout = "-1s" }', "limits.rpc_handshake_timeout"),
        ('limits { rpc_handshake_timeout = "48h" }', "limits.rpc_handshake_timeout"),
        ('limits { http_max_conns_per_client = "x" }', "http_max_conns_per_client"),
        ('http_allowed_hosts = ["https://a.example"]', "without a scheme"),
        ('insecure_http = "yes"', "insecure_http"),
    ],
)
def test_limits_and_names_that_cannot_work_are_refused(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = tmp_path / "agent.hcl"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=problem):
        read_config(path)


def test_audit_block_is_read(tmp_path: Path) -> None:
    path = tmp_path / "agent.hcl"
    path.write_text(
        """
        audit {
          enabled = true
          sink "s" {
            path               = "/var/log/a.log"
            delivery_guarantee = "best-effort"
            rotate_bytes       = 10
            rotate_duration    = "1h"
            rotate_max_files   = 3
            mode               = "0640"
          }
          filter "f" {
            type       = "HTTPEvent"
            endpoints  = ["/v1/metrics"]
            stages     = ["*"]
            operations = ["GET"]
          }
        }
        """
    )
    audit = read_config(path).server["audit"]
    assert (audit.path, audit.enforced, audit.mode) == (Path("/var/log/a.log"), False, 0o640)
    assert (audit.rotate_bytes, audit.rotate_duration_s, audit.rotate_max_files) == (10, 3600, 3)
    assert not audit.records("/v1/metrics", Stage.COMPLETE, "GET")
    assert audit.records("/v1/metrics", Stage.COMPLETE, "PUT")


@pytest.mark.parametrize(
    "block",
    [
        'sink "a" {}\nsink "b" {}',
        'sink "a" { type = "syslog" }',
        'sink "a" { format = "text" }',
        'sink "a" { delivery_guarantee = "maybe" }',
        'sink "a" { path = "relative" }',
        'sink "a" { mode = "rw" }',
        'sink "a" { rotate_bytes = -1 }',
        'filter "f" { stages = ["Nonsense"] }',
        'filter "f" { endpoints = ["*"] }',
        'filter "f" { type = "Other" }',
    ],
)
def test_audit_block_that_cannot_be_used_is_refused(tmp_path: Path, block: str) -> None:
    path = tmp_path / "agent.hcl"
    path.write_text(f"audit {{\n{block}\n}}\n")
    with pytest.raises(InvalidInputError, match=r"cannot use .*audit"):
        read_config(path)
