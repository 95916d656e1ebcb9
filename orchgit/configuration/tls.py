"""Reads the `tls` section of a configuration file: which connections are TLS, with which files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orchgit.configuration.schema import TlsSection
from orchgit.errors import InvalidInputError
from orchgit.wire.https import HttpTls, check_files
from orchgit.wire.tls import TlsFiles


def tls_settings(section: TlsSection | None) -> dict[str, Any]:
    """Returns `tls` (of RPC) and `http_tls`, as servers and agents take them.

    Raises InvalidInputError for incomplete settings, and for files that cannot be used.
    """
    if section is None:
        return {"tls": None, "http_tls": None}
    names_files = bool(section.ca_file or section.cert_file or section.key_file)
    rpc = names_files if section.rpc is None else section.rpc
    if not (section.http or rpc or section.verify_https_client):
        return {"tls": None, "http_tls": None}
    _check_verification(section)
    files = _files(section)
    http = HttpTls(files, section.verify_https_client) if section.http else None
    return {"tls": None if section.rpc is False else files, "http_tls": http}


def _check_verification(section: TlsSection) -> None:
    if section.verify_https_client and not section.http:
        raise InvalidInputError(
            "cannot use tls.verify_https_client: HTTP is plain here, so no client can show a "
            "certificate; set tls.http = true as well"
        )
    if not section.verify_server_hostname:
        raise InvalidInputError(
            "cannot use tls.verify_server_hostname = false: whose certificate a server shows is "
            "always checked; take the line out, and have certificates name the addresses at which "
            "servers are reached (`orchgit tls cert create -server -additional-ipaddress ADDRESS`)"
        )


def _files(section: TlsSection) -> TlsFiles:
    named = {"ca_file": section.ca_file, "cert_file": section.cert_file}
    named["key_file"] = section.key_file
    if missing := [name for name, path in named.items() if not path]:
        raise InvalidInputError(
            "cannot use the tls section: of ca_file, cert_file and key_file it lacks "
            f"{', '.join(missing)}; `orchgit tls ca create` and `orchgit tls cert create` make them"
        )
    files = TlsFiles(Path(section.ca_file), Path(section.cert_file), Path(section.key_file))
    check_files(files)
    return files
