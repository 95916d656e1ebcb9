"""A service without a provider is one of the servers' own, unless it needs Consul."""

from __future__ import annotations

import pytest

from jobspec.parse import parse_job
from jobspec.service_providers import choose_providers

FILE = """\
job "s" {
  group "g" {
    service {
      name = "a"
      %s
    }
    task "t" {
      driver = "docker"
      service {
        name = "b"
      }
    }
  }
}
"""


def chosen(first: str) -> list[str]:
    spec = parse_job((FILE % first).encode(), filename="s.hcl").spec
    choose_providers(spec)
    (group,) = spec["TaskGroups"]
    return [each["Provider"] for each in (*group["Services"], *group["Tasks"][0]["Services"])]


@pytest.mark.parametrize("first", ["", 'provider = "nomad"'])
def test_services_that_need_no_consul_are_the_servers_own(first: str) -> None:
    assert chosen(first) == ["nomad", "nomad"]


@pytest.mark.parametrize(
    ("first", "kept"),
    [
        ('provider = "consul"', "consul"),
        ("connect {}", ""),
        ('check {\n type = "script"\n command = "true"\n}', ""),
    ],
)
def test_group_that_needs_consul_keeps_the_default(first: str, kept: str) -> None:
    assert chosen(first) == [kept, ""]
