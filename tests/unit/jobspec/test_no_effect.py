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
