"""Agent configuration files: HCL and JSON, unknown keys, documentation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from orchgit.cli.config_file import FileConfig, read_config
from orchgit.errors import InvalidInputError

DOCS = Path(__file__).parents[3] / "docs/operations.md"

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
        ("datacenter = \n", "agent.hcl:1:"),
        ("host_volume {\n}\n", "needs one label"),
        ("server {\n}\nserver {\n}\n", "given twice"),
        ('tls {\n  ca_file = "/nonexistent"\n}\n', "ca_file"),
        ('client {\n  gc_interval = "soon"\n}\n', "client.gc_interval"),
        ("{", "agent.hcl"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot") as caught:
        read_config(written(tmp_path, text))
    assert named in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"cannot read the configuration .*nowhere"):
        read_config(tmp_path / "nowhere")


def keys_of(section: type[msgspec.Struct]) -> Iterator[str]:
    for field in msgspec.structs.fields(section):
        yield field.name
        kinds = (field.type, *getattr(field.type, "__args__", ()))
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                yield from keys_of(kind)


def test_every_key_is_documented() -> None:
    text = DOCS.read_text()
    assert [key for key in keys_of(FileConfig) if key not in text] == []
