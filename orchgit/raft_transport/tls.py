"""TLS between members: certificates of the cluster's own authority, on both sides."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Mapping

from orchgit.errors import InvalidInputError
from orchgit.wire.tls import TlsFiles, names_server


def server_context(files: TlsFiles) -> ssl.SSLContext:
    return _loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), files)


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """Returns a context that checks the certificate against the host that is connected to."""
    return _loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), files)


def _loaded(context: ssl.SSLContext, files: TlsFiles) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(files.ca)
        context.load_cert_chain(files.cert, files.key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidInputError(
            f"cannot use the certificates of replication ({files.ca}, {files.cert}, {files.key}): "
            f"{error}; give PEM files that this server can read"
        ) from error
    return context


def names_host(certificate: Mapping[str, object], host: str) -> bool:
    """Returns whether a checked certificate's alternative names have exactly this host."""
    names = certificate.get("subjectAltName", ())
    assert isinstance(names, tuple)
    return any(_same_host(str(value), host) for _, value in names)


def server_of(certificate: Mapping[str, object], region: str) -> bool:
    """Returns whether a checked certificate is a server's, not an agent's."""
    names = certificate.get("subjectAltName", ())
    assert isinstance(names, tuple)
    return names_server((str(value) for kind, value in names if kind == "DNS"), region)


def _same_host(one: str, other: str) -> bool:
    try:
        return ipaddress.ip_address(one) == ipaddress.ip_address(other)
    except ValueError:
        return one.lower() == other.lower()
