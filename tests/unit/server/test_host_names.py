"""Under which names a listener answers, and which of them can be configured."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchgit.errors import InvalidInputError
from orchgit.server.http.host_names import HostNames, check_names, own_names
from tests.support.certificates import make_tls_files

NAMES = HostNames(("orchgit.example", "*.wild.example"), ("vm1", "server.global.orchgit"))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:4646",
        "localhost",
        "LOCALHOST:4646",
        "a.localhost:1",
        "10.9.8.7:4646",
        "[::1]:4646",
        "[fd00::1]",
        "::1",
        "orchgit.example",
        "Orchgit.Example.:443",
        "a.wild.example",
        "a.b.wild.example:80",
        "vm1:4646",
        "server.global.orchgit",
    ],
)
def test_addresses_and_names_of_this_server_are_allowed(host: str) -> None:
    assert NAMES.allows(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "rebound.example",
        "rebound.example:4646",
        "127.0.0.1.rebound.example",
        "localhost.rebound.example",
        "notlocalhost",
        "orchgit.example.rebound.example",
        "xorchgit.example",
        "wild.example",
        "xwild.example",
        "127.0.0.1@rebound.example",
        "rebound.example:4646:127.0.0.1",
        "[::1].rebound.example",
        "127.1.rebound.example",
    ],
)
def test_host_that_is_no_own_name_is_refused(host: str) -> None:
    assert not NAMES.allows(host)


def test_star_allows_any_name() -> None:
    assert HostNames(("*",)).allows("any.example:80")


def test_own_names_are_those_of_the_machine_and_of_its_certificates(tmp_path: Path) -> None:
    files = make_tls_files(tmp_path)
    own = own_names(("node-1", "api.internal:4646", ""), [files.cert])
    assert {os.uname().nodename.lower(), "node-1", "api.internal"} <= set(own)
    assert any(name.startswith("server.global.") for name in own)


def test_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("none")
    with pytest.raises(InvalidInputError, match=r"cert\.pem"):
        own_names((), [tmp_path / "cert.pem"])


@pytest.mark.parametrize(
    "name", ["https://a.example", "a.example:80", "a*.example", "", "*.", "a b"]
)
def test_invalid_host_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match="http_allowed_hosts"):
        check_names([name])


def test_names_with_and_without_star_can_be_configured() -> None:
    check_names(["a.example", "*.a.example", "*", "localhost"])
