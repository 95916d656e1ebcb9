"""The `tls` section: what is TLS, and what is said of files that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchgit.configuration.file import read_config
from orchgit.errors import InvalidInputError
from orchgit.wire.https import HttpTls
from orchgit.wire.tls import TlsFiles
from tests.support.certificates import make_tls_files


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return make_tls_files(tmp_path_factory.mktemp("ours"))


def section(files: TlsFiles, **more: Any) -> dict[str, Any]:
    named = {"ca_file": files.ca, "cert_file": files.cert, "key_file": files.key}
    return {**{name: str(path) for name, path in named.items()}, **more}


def settings(tmp_path: Path, tls: dict[str, Any]) -> tuple[object, object]:
    """(of RPC, of HTTP), the same for servers and agents."""
    file = tmp_path / "agent.json"
    file.write_text(json.dumps({"tls": tls}))
    read = read_config(file)
    assert read.server["tls"] == read.agent["tls"]
    assert read.server["http_tls"] == read.agent["http_tls"]
    return read.server["tls"], read.server["http_tls"]


def refusal(tmp_path: Path, tls: dict[str, Any]) -> str:
    with pytest.raises(InvalidInputError, match=r"^cannot ") as caught:
        settings(tmp_path, tls)
    return str(caught.value)


def test_certificate_files_alone_switch_on_tls_of_rpc(tmp_path: Path, files: TlsFiles) -> None:
    assert settings(tmp_path, section(files)) == (files, None)


def test_tls_of_rpc_and_of_http_are_switched_separately(tmp_path: Path, files: TlsFiles) -> None:
    assert settings(tmp_path, section(files, http=True)) == (files, HttpTls(files))
    assert settings(tmp_path, section(files, http=True, rpc=False)) == (None, HttpTls(files))
    assert settings(tmp_path, section(files, http=True, rpc=True, verify_https_client=True)) == (
        files,
        HttpTls(files, verify_client=True),
    )
    assert settings(tmp_path, section(files, rpc=False)) == (None, None)
    assert settings(tmp_path, section(files, verify_server_hostname=True)) == (files, None)


def test_without_tls_settings_there_is_no_tls(tmp_path: Path) -> None:
    assert settings(tmp_path, {}) == (None, None)
    assert settings(tmp_path, {"http": False, "rpc": False}) == (None, None)


def test_incomplete_tls_settings_are_refused_by_name(tmp_path: Path, files: TlsFiles) -> None:
    assert "it lacks ca_file, cert_file, key_file;" in refusal(tmp_path, {"http": True})
    assert "it lacks ca_file, cert_file, key_file;" in refusal(tmp_path, {"rpc": True})
    assert "it lacks key_file;" in refusal(tmp_path, {**section(files), "key_file": ""})
    assert "set tls.http = true" in refusal(tmp_path, section(files, verify_https_client=True))
    assert "always checked" in refusal(tmp_path, section(files, verify_server_hostname=False))
    assert "http2" in refusal(tmp_path, section(files, http2=True))


def test_files_that_cannot_be_used_are_named(tmp_path: Path, files: TlsFiles) -> None:
    text, empty = tmp_path / "notes.txt", tmp_path / "empty.pem"
    text.write_text("hello")
    empty.write_text("-----BEGIN NOTHING-----\n-----END NOTHING-----\n")
    other = make_tls_files(tmp_path / "theirs")
    for name in ("ca_file", "cert_file", "key_file"):
        said = refusal(tmp_path, {**section(files), name: str(tmp_path / "none.pem")})
        assert f"tls.{name}: cannot read {tmp_path}/none.pem: No such file" in said
        said = refusal(tmp_path, {**section(files), name: str(tmp_path)})
        assert f"tls.{name}: cannot read {tmp_path}: Is a directory" in said
        said = refusal(tmp_path, {**section(files), name: str(text)})
        assert f"tls.{name}: {text} is not a PEM file" in said
    assert "no certificate of an authority" in refusal(
        tmp_path, {**section(files), "ca_file": str(empty)}
    )
    assert f"the key {other.key} is not that of the certificate {files.cert}" in refusal(
        tmp_path, {**section(files), "key_file": str(other.key)}
    )
    assert "not a certificate and its unencrypted key" in refusal(
        tmp_path, {**section(files), "cert_file": str(files.key)}
    )
