"""`orchgit tls`: an authority and certificates that the cluster's connections accept, or refuse."""

from __future__ import annotations

import json
import ssl
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from orchgit.cli.main import cli
from orchgit.errors import InvalidInputError
from orchgit.raft_transport.tls import client_context, names_host, server_context
from orchgit.wire.tls import TlsFiles


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, words, catch_exceptions=False)


def refusal(*words: str) -> str:
    with pytest.raises(InvalidInputError) as caught:
        run(*words)
    return str(caught.value)


def described(file: str, *words: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(run("tls", "cert", "info", "-json", *words, file).output)
    return found


def make_all(*server_words: str) -> TlsFiles:
    run("tls", "ca", "create")
    run("tls", "cert", "create", "-server", *server_words)
    stem = "global-server-orchgit"
    return TlsFiles(Path("orchgit-agent-ca.pem"), Path(f"{stem}.pem"), Path(f"{stem}-key.pem"))


@contextmanager
def handshake(server: TlsFiles, client: TlsFiles, host: str) -> Iterator[ssl.SSLObject]:
    """Both sides in memory; the client checks for `host`."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client_context(client).wrap_bio(to_client, to_server, server_hostname=host)
    two = server_context(server).wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (one, two):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    yield two


def test_new_authority_and_its_certificates_work_between_members(here: Path) -> None:
    files = make_all("-additional-ipaddress", "10.9.8.7", "-additional-dnsname", "one.example")
    for host in ("10.9.8.7", "one.example", "127.0.0.1", "localhost"):
        with handshake(files, files, host) as side:
            shown = side.getpeercert()
        assert shown is not None
        assert names_host(shown, host)


def test_member_at_an_address_that_its_certificate_does_not_name_is_refused(here: Path) -> None:
    files = make_all()
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        with handshake(files, files, "10.9.8.7"):
            pass


def test_certificate_of_the_command_line_cannot_be_a_server(here: Path) -> None:
    files = make_all()
    run("tls", "cert", "create", "-cli")
    stem = "global-cli-orchgit"
    asking = TlsFiles(files.ca, Path(f"{stem}.pem"), Path(f"{stem}-key.pem"))
    with handshake(files, asking, "127.0.0.1"):
        pass
    with pytest.raises(ssl.SSLError, match="unsuitable certificate purpose"):
        with handshake(asking, files, "127.0.0.1"):
            pass


def test_keys_are_for_their_owner_only_and_nothing_is_replaced(here: Path) -> None:
    files = make_all()
    for key in (files.key, Path("orchgit-agent-ca-key.pem")):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    before = files.cert.read_bytes()
    assert "it is there already" in refusal("tls", "ca", "create")
    assert "-out" in refusal("tls", "cert", "create", "-server")
    assert files.cert.read_bytes() == before
    run("tls", "cert", "create", "-server", "-out", "second")
    assert Path("second.pem").exists()
    assert Path("second-key.pem").exists()


def test_files_are_named_as_nomad_names_them(here: Path) -> None:
    run("tls", "ca", "create", "-domain", "prod")
    run("tls", "cert", "create", "-client", "-domain", "prod", "-region", "eu")
    assert {path.name for path in here.iterdir()} == {
        "prod-agent-ca.pem",
        "prod-agent-ca-key.pem",
        "eu-client-prod.pem",
        "eu-client-prod-key.pem",
    }
    assert described("eu-client-prod.pem")["DNSNames"] == ["client.eu.prod", "localhost"]


def test_tls_create_prints_the_next_command(here: Path) -> None:
    answer = run("tls", "ca", "create").output
    assert "orchgit tls cert create -server -additional-ipaddress ADDRESS" in answer
    answer = run("tls", "cert", "create", "-server").output
    assert 'ca_file   = "orchgit-agent-ca.pem"' in answer
    assert "loop-back only" in answer


def test_info_tells_who_signed_it(here: Path) -> None:
    make_all()
    mine = described("global-server-orchgit.pem", "-ca", "orchgit-agent-ca.pem")
    assert mine["SignedByCA"] is True
    assert mine["IsCA"] is False
    run("tls", "ca", "create", "-domain", "other")
    other = described("global-server-orchgit.pem", "-ca", "other-agent-ca.pem")
    assert other["SignedByCA"] is False
    shown = run("tls", "ca", "info").output
    assert "IsCA         = True" in shown


def test_constrained_authority_cannot_vouch_for_other_names(here: Path) -> None:
    run("tls", "ca", "create", "-name-constraint", "-additional-domain", "example")
    run("tls", "cert", "create", "-server", "-additional-dnsname", "one.example")
    run("tls", "cert", "create", "-server", "-additional-dnsname", "one.else", "-out", "bad")
    ca, good = Path("orchgit-agent-ca.pem"), "global-server-orchgit"
    inside = TlsFiles(ca, Path(f"{good}.pem"), Path(f"{good}-key.pem"))
    outside = TlsFiles(ca, Path("bad.pem"), Path("bad-key.pem"))
    with handshake(inside, inside, "one.example"):
        pass
    with pytest.raises(ssl.SSLCertVerificationError, match="permitted subtree"):
        with handshake(outside, inside, "one.else"):
            pass


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "give one of -server, -client and -cli"),
        (("-server", "-cli"), "give one of"),
        (("-server", "-additional-ipaddress", "ten"), "for these names"),
        (("-server", "-days", "0"), "-days 1 or more"),
        (("-server", "-ca", "missing.pem"), "orchgit tls ca create"),
        (("-server", "-key", "orchgit-agent-ca.pem"), "cannot read the authority's key"),
        (("-server", "-key", "other-agent-ca-key.pem"), "is not that of its certificate"),
        (("-server", "-ca", "leaf.pem", "-key", "leaf-key.pem"), "not the certificate of an auth"),
    ],
)
def test_certificate_that_cannot_be_signed_is_refused_and_leaves_no_file(
    here: Path, words: tuple[str, ...], told: str
) -> None:
    run("tls", "ca", "create")
    run("tls", "ca", "create", "-domain", "other")
    run("tls", "cert", "create", "-server", "-out", "leaf")
    before = {path.name for path in here.iterdir()}
    assert told in refusal("tls", "cert", "create", *words)
    assert {path.name for path in here.iterdir()} == before


def test_info_of_a_file_that_is_no_certificate(here: Path) -> None:
    Path("x.pem").write_text("nothing")
    assert "x.pem: it is no certificate in PEM format" in refusal("tls", "cert", "info", "x.pem")
