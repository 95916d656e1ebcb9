"""Where HTTP listens without a word of the person who runs it, and where it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.config import AgentConfig
from orchgit.errors import InvalidInputError
from orchgit.server.config import ServerConfig
from orchgit.server.http.access import HttpAccess, access_of, check_exposure
from orchgit.wire.https import HttpTls
from tests.support.certificates import make_tls_files

BEYOND = ("0.0.0.0:4646", "10.0.0.1:4646", "[::]:4646", "node.example:4646")


@pytest.mark.parametrize("bind", BEYOND)
def test_beyond_loopback_http_wants_certificates_or_the_word(bind: str, tmp_path: Path) -> None:
    files = make_tls_files(tmp_path)
    for access in (HttpAccess(), HttpAccess(HttpTls(files))):
        with pytest.raises(InvalidInputError, match="verify_https_client = true") as refused:
            check_exposure(bind, access)
        assert "insecure_http = true" in str(refused.value)
    check_exposure(bind, HttpAccess(insecure=True))
    check_exposure(bind, HttpAccess(HttpTls(files, verify_client=True)))


@pytest.mark.parametrize("bind", BEYOND)
def test_beyond_loopback_tokens_are_enough_with_https_only(bind: str, tmp_path: Path) -> None:
    check_exposure(bind, HttpAccess(HttpTls(make_tls_files(tmp_path)), checks_tokens=True))
    with pytest.raises(InvalidInputError, match="switch access control on and serve HTTPS"):
        check_exposure(bind, HttpAccess(checks_tokens=True))


@pytest.mark.parametrize("bind", ["127.0.0.1:4646", "127.0.0.9:1", "[::1]:4646", "localhost:4646"])
def test_plain_http_on_loopback_is_allowed(bind: str) -> None:
    check_exposure(bind, HttpAccess())


def test_servers_and_agents_are_asked_for_the_same(tmp_path: Path) -> None:
    server = ServerConfig(data_dir=tmp_path, name="n1", http_advertise="api.example:4646")
    agent = AgentConfig(data_dir=tmp_path, servers=("127.0.0.1:1",), insecure_http=True)
    assert not server.http_access.insecure
    assert server.http_access.names.allows("api.example:4646")
    assert access_of(agent, ("n2",)).insecure
    assert access_of(agent, ("n2",)).names.allows("n2:4646")
