"""TLS of HTTP: what servers and agents serve, and with what servers reach agents.

Unlike RPC it is mutual only where that is asked for, as browsers and git have no certificate of the
cluster by themselves.
"""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass

from orchgit.errors import InvalidInputError
from orchgit.wire.certificate_errors import WRONG_HOST
from orchgit.wire.tls import TlsFiles


@dataclass(frozen=True, slots=True)
class HttpTls:
    files: TlsFiles
    verify_client: bool = False
    """Whether only clients with a certificate of the authority are answered."""


def serving_context(tls: HttpTls) -> ssl.SSLContext:
    """Raises InvalidInputError for files that cannot be used.

    Who has a wrong certificate gets no connection; whether one without any does is for the server
    to decide (`TlsListener`), as TLS could not tell it why not.
    """
    context = _loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), tls.files)
    context.set_alpn_protocols(["http/1.1"])
    if tls.verify_client:
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def asking_context(files: TlsFiles) -> ssl.SSLContext:
    """Checks that the other side is of the authority, and that its certificate is for the host
    that is connected to; shows the own certificate where one is wanted."""
    return _loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), files)


def why_not_for(files: TlsFiles, host: str) -> str:
    """Why clients that connect to `host` would not accept the certificate; empty: they would.

    Raises InvalidInputError where they would accept it nowhere. A handshake in memory says so:
    exactly what a client does.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking_context(files).wrap_bio(to_client, to_server, server_hostname=host)
    server = serving_context(HttpTls(files)).wrap_bio(to_server, to_client, server_side=True)
    try:
        for side in (client, server, client):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in WRONG_HOST:
            return error.verify_message.rstrip(".")
        raise InvalidInputError(
            f"cannot use the certificate {files.cert}: checked with the authority {files.ca}, "
            f"{error.verify_message}; `orchgit tls cert create` makes one"
        ) from error
    return ""


def option_for(host: str) -> str:
    """Of `orchgit tls cert create`, that makes a certificate name the host."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return f"-additional-dnsname {host}"
    return f"-additional-ipaddress {host}"


def reload_files(files: TlsFiles) -> None:
    """Have every listener and every new connection take the files as they are now.

    Raises InvalidInputError, and changes nothing, for files that could not be used.
    """
    why_not_for(files, "localhost")
    files.version.number += 1


def check_files(files: TlsFiles) -> None:
    """Raises InvalidInputError, naming the file, unless the three can be read and fit together."""
    _loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), files)


def _loaded(context: ssl.SSLContext, files: TlsFiles) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for name, path in (("ca_file", files.ca), ("cert_file", files.cert), ("key_file", files.key)):
        try:
            text = path.read_bytes()
        except OSError as error:
            raise _unusable(name, f"cannot read {path}: {error.strerror}") from error
        if b"-----BEGIN " not in text:
            raise _unusable(name, f"{path} is not a PEM file")
    try:
        context.load_verify_locations(files.ca)
    except (OSError, ssl.SSLError) as error:
        raise _unusable("ca_file", f"{files.ca} holds no certificate of an authority") from error
    try:
        # The password keeps OpenSSL from asking at the terminal for that of an encrypted key.
        context.load_cert_chain(files.cert, files.key, password="")
    except (OSError, ssl.SSLError) as error:
        raise _unusable_pair(files, error) from error
    return context


def _unusable_pair(files: TlsFiles, error: OSError) -> InvalidInputError:
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        return _unusable(
            "key_file", f"the key {files.key} is not that of the certificate {files.cert}"
        )
    return _unusable(
        "cert_file and key_file",
        f"{files.cert} and {files.key} are not a certificate and its unencrypted key",
    )


def _unusable(name: str, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"cannot use tls.{name}: {why}; `orchgit tls cert create` makes certificates"
    )
