"""The table of keys without effect: its paths exist, its keys are found, and the docs have it."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import msgspec
import pytest

from jobspec.canonicalize import parsed_job
from jobspec.parse import parse_job
from jobspec.rules.no_effect import KEYS_WITHOUT_EFFECT, KeyWithoutEffect
from jobspec.validate import validate_job
from orchgit.cli.job_files.linting import WARNING, LintSettings, lint_content
from orchgit.model.job import Job

DOCS = Path(__file__).parents[3] / "docs" / "agent.md"


def has_field(struct: object, names: list[str]) -> bool:
    if not names:
        return True
    if isinstance(struct, type) and issubclass(struct, msgspec.Struct):
        for field in msgspec.structs.fields(struct):
            if field.encode_name == names[0]:
                return has_field(field.type, names[1:])
        return False
    if typing.get_origin(struct) is dict:  # a block that is kept as it was written
        return True
    return any(has_field(inner, names) for inner in typing.get_args(struct))


@pytest.mark.parametrize("key", KEYS_WITHOUT_EFFECT, ids=lambda key: key.key)
def test_place_exists_in_the_job(key: KeyWithoutEffect) -> None:
    assert has_field(Job, key.place.split("."))


def test_documentation_has_the_same_table() -> None:
    section = DOCS.read_text().partition("## Keys without effect")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w.]+)`(?: \((\w+)\))? \| (.+) \|$", section, re.M)
    assert rows == [
        (each.key, each.driver or each.provider, each.why) for each in KEYS_WITHOUT_EFFECT
    ]


FILE = """
job "j" {
  multiregion {
    region "west" {}
  }
  group "g" {
    task "t" {
      driver = "DRIVER"
      config { command = "true" }
      volume_mount {
        volume      = "v"
        destination = "/v"
        read_only   = true
      }
      service {
        name                = "s"
        provider            = "nomad"
        enable_tag_override = true
      }
      vault {
        allow_token_expiration = true
      }
    }
    volume "v" {
      type   = "host"
      source = "v"
    }
  }
}
"""


def without_effect(driver: str) -> dict[str, tuple[str | int, ...]]:
    parsed = parse_job(FILE.replace("DRIVER", driver).encode(), filename="j.nomad.hcl")
    result = validate_job(parsed_job(parsed.spec))
    found = {each.key.key: each.place for each in result.without_effect}
    told = [text.partition(" ")[0] for text in result.all_warnings if " has no effect" in text]
    assert told == [name for name in found if name != "multiregion"]
    return found


def test_keys_that_are_set_are_found_with_their_places() -> None:
    task = ("TaskGroups", 0, "Tasks", 0)
    assert without_effect("raw_exec") == {
        "multiregion": ("Multiregion",),
        "group.task.service.enable_tag_override": (*task, "Services", 0, "EnableTagOverride"),
        "group.task.volume_mount.read_only": (*task, "VolumeMounts", 0, "ReadOnly"),
        "group.task.vault.allow_token_expiration": (*task, "Vault", "AllowTokenExpiration"),
    }


def test_key_of_another_driver_is_heeded() -> None:
    assert "group.task.volume_mount.read_only" not in without_effect("exec")


VALUES = {
    "multiregion": 'multiregion {\n region "west" {}\n}',
    "tagged_addresses": 'tagged_addresses { lan = "1.2.3.4:5" }',
    "weights": "weights {\n passing = 3\n warning = 2\n}",
    "scaling": 'scaling "cpu" {\n enabled = true\n max = 3\n policy {}\n}',
    "volume_mount": 'volume_mount {\n volume = "v"\n destination = "/d"\n}',
    "device": 'device "nvidia/gpu" {}',
    "vault_grace": 'vault_grace = "5s"',
    "propagation_mode": 'propagation_mode = "bidirectional"',
    **{name: f"{name} = 7" for name in ("mbits", "iops", "disk", "failures_before_warning")},
    **{
        name: f"{name} = true"
        for name in ("enable_tag_override", "expose", "allow_token_expiration", "read_only")
    },
}
"""How a key is written that is no text."""
INSIDE = {
    "check": 'type = "tcp"\n port = "p"\n interval = "10s"\n timeout = "2s"',
    "template": 'data = "x"\n destination = "local/x"',
    "volume_mount": 'volume = "v"\n destination = "/v"',
    "csi_plugin": 'id = "p"\n type = "controller"',
}
"""What a block needs beside the key."""
SHAPE = """
job "j" {
  %(job)s
  group "g" {
    volume "v" {
      type   = "host"
      source = "v"
    }
    %(group)s
    task "t" {
      driver = "%(driver)s"
      config { command = "true" }
      %(task)s
    }
  }
}
"""


def text_with(key: KeyWithoutEffect) -> str:
    """Returns a job file that sets the key, and no other key without effect."""
    *owners, name = key.key.split(".")
    level = "task" if owners[:2] == ["group", "task"] else "group" if owners else "job"
    written = VALUES.get(name, f'{name} = "x"')
    for block in reversed(owners[{"task": 2, "group": 1, "job": 0}[level] :]):
        label = f' "{block}"' if block == "volume" else ""
        needs = INSIDE.get(block, "")
        if block == "service":
            needs = f'name = "s"\n port = "p"\n provider = "{key.provider or "nomad"}"'
        written = f"{block}{label} {{\n {needs}\n {written}\n}}"
    parts = {"job": "", "group": "", "task": "", "driver": key.driver or "exec", level: written}
    return SHAPE % parts


@pytest.mark.parametrize("key", KEYS_WITHOUT_EFFECT, ids=lambda key: f"{key.key}-{key.driver}")
def test_lint_and_servers_warn_of_each_key_that_a_file_sets(key: KeyWithoutEffect) -> None:
    content = text_with(key).encode()
    told = validate_job(parsed_job(parse_job(content, filename="j.hcl").spec)).all_warnings
    findings = lint_content("j.hcl", content, LintSettings({}, ()))
    linted = [found.message for found in findings if found.level == WARNING]
    if key.warned_of:
        name = key.key.rpartition(".")[2]
        assert any(name in each.lower() for each in told), told
        assert any(name in each.lower() for each in linted), linted
        return
    assert [each for each in linted if " has no effect" in each] == [key.message]
    expected = [] if key.api_is_silent else [key.message]
    assert [each for each in told if " has no effect" in each] == expected
