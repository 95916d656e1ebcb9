"""The gitops section of a configuration: limits, how remotes are reached, and sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchgit.configuration.file import read_config
from orchgit.errors import InvalidInputError
from orchgit.gitops.config import GitopsConfig
from orchgit.gitops.git.limits import MIB
from orchgit.model.source import DEFAULT_PATHS, TagPolicy
from tests.support.certificates import Authority


def gitops_of(directory: Path, section: str) -> GitopsConfig:
    path = directory / "agent.hcl"
    path.write_text(f"gitops {{\n{section}\n}}\n")
    found: GitopsConfig = read_config(path).server["gitops"]
    return found


def test_limits_of_the_file_take_the_place_of_the_defaults(tmp_path: Path) -> None:
    found = gitops_of(
        tmp_path,
        """
        limits {
          max_push_bytes     = "2GiB"
          max_file_bytes     = 4096
          max_job_files      = 7
          fetch_timeout      = "1h"
          parse_timeout      = "20s"
          parse_memory_bytes = "512MiB"
        }
        """,
    )
    assert (found.limits.max_push_bytes, found.limits.max_file_bytes) == (2048 * MIB, 4096)
    assert (found.limits.max_job_files, found.limits.fetch_timeout_s) == (7, 3600.0)
    assert (found.parsing.parse_timeout_s, found.parsing.parse_memory_bytes) == (20.0, 512 * MIB)
    assert (found.limits.max_tree_depth, found.parsing.warm) == (64, 1)


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        ("max_push_bytes = 0", "gitops.limits.max_push_bytes: it must be more than zero"),
        ('max_push_bytes = "lots"', 'gitops.limits.max_push_bytes: "lots" is no size'),
        ('fetch_timeout = "-5s"', "gitops.limits.fetch_timeout"),
        ("max_cats = 9", "max_cats"),
    ],
)
def test_limit_that_cannot_be_is_refused_by_name(tmp_path: Path, limit: str, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why.replace(".", r"\.")):
        gitops_of(tmp_path, f"limits {{ {limit} }}")


def test_ways_to_reach_remotes_are_read(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca").file
    found = gitops_of(
        tmp_path,
        f"""
        proxy           = "http://proxy.example:3128"
        no_proxy        = [".internal"]
        ca_file         = "{authority}"
        ssh_known_hosts = "git.example ssh-ed25519 AAAA"
        credential "git" {{
          origin           = "https://git.example:8443"
          client_cert_file = "/x/cert.pem"
          client_key_file  = "/x/key.pem"
          proxy            = "none"
          sources          = ["shop-*"]
        }}
        source "shop-a" {{
          url        = "https://git.example:8443/jobs.git"
          credential = "git"
          ca_file    = "{authority}"
          ref        = "semver:>=1 <2"
          tag_prefix = "shop/v"
          exclude    = ["**/old/**"]
          namespace  = "shop"
        }}
        source "shop-b" {{
          repository = "mono"
        }}
        """,
    )
    assert found.transport.proxy == "http://proxy.example:3128"
    assert found.transport.no_proxy == (".internal",)
    assert found.transport.ca_file == str(authority)
    assert found.credentials["git"].proxy == "none"
    first, second = found.sources
    assert first.ca_certificates == authority.read_text()
    assert (first.ref, first.tags) == ("semver:>=1 <2", TagPolicy("shop/v"))
    assert (first.exclude, first.namespace, first.paths) == (
        ["**/old/**"],
        "shop",
        list(DEFAULT_PATHS),
    )
    assert (second.repository_name, second.kind) == ("mono", "builtin")


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ('proxy = "proxy:3128"', "cannot use proxy"),
        ('ca_pem = "nonsense"', "cannot use these certificates"),
        ('ca_pem = "x"\nca_file = "/y"', "cannot use"),
        ('ca_pem = "-----BEGIN PRIVATE KEY-----"', "a private key is among them"),
        (
            'credential "x" { origin = "https://h/path" }',
            "2:27: cannot use gitops.credential.x.origin: ",
        ),
        (
            'credential "x" {\n origin = "https://h"\n client_key_file = "/k"\n}',
            "client_cert_file and client_key_file belong together",
        ),
        (
            'source "x" {\n url = "https://h/x"\n ca_file = "/none/ca.pem"\n}',
            "gitops.source 'x': cannot read ca_file /none/ca.pem: no such file",
        ),
    ],
)
def test_way_that_cannot_be_is_refused(tmp_path: Path, section: str, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        gitops_of(tmp_path, section)
