"""How an HTTP listener is reached and by whom; refuses to be open to everyone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from orchgit.errors import InvalidInputError
from orchgit.host_port import is_loopback
from orchgit.server.http.host_names import HostNames, own_names
from orchgit.wire.https import HttpTls
from orchgit.wire.limits import Limits
from orchgit.wire.tls import TlsFiles

_HEADER_NAME = re.compile(r"[A-Za-z0-9-]+")
_OWN_HEADERS = frozenset(
    ("connection", "content-length", "content-type", "date", "transfer-encoding", "upgrade")
)


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """How an HTTP listener is reached, and by whom."""

    tls: HttpTls | None = None
    """With it HTTPS is served, and no plain HTTP."""
    checks_tokens: bool = False
    """Whether access control is on: clients without a certificate are told apart by their
    tokens."""
    insecure: bool = False
    """Whether clients on other machines are answered without a certificate."""
    limits: Limits = field(default_factory=Limits)
    names: HostNames = field(default_factory=HostNames)
    response_headers: Mapping[str, str] = field(default_factory=dict)
    """Added to every answer."""
    also: tuple[str, ...] = ()
    """Addresses (host:port) on which it listens beside the first."""


class HttpSettings(Protocol):
    """The HTTP settings that servers and agents have in common."""

    @property
    def tls(self) -> TlsFiles | None: ...

    @property
    def http_tls(self) -> HttpTls | None: ...

    @property
    def checks_tokens(self) -> bool: ...

    @property
    def insecure_http(self) -> bool: ...

    @property
    def http_allowed_hosts(self) -> tuple[str, ...]: ...

    @property
    def limits(self) -> Limits: ...

    @property
    def http_response_headers(self) -> Mapping[str, str]: ...

    @property
    def http_also(self) -> tuple[str, ...]: ...


def access_of(config: HttpSettings, addresses: Iterable[str]) -> HttpAccess:
    """Returns how the listener is reached.

    `addresses` are the names by which others reach this machine, as host or host:port. Raises
    InvalidInputError for a certificate that cannot be read.
    """
    files = (config.tls, config.http_tls.files if config.http_tls else None)
    own = own_names((*addresses, *config.http_also), {each.cert for each in files if each})
    names = HostNames(config.http_allowed_hosts, own)
    return HttpAccess(
        config.http_tls,
        config.checks_tokens,
        config.insecure_http,
        config.limits,
        names,
        config.http_response_headers,
        config.http_also,
    )


def check_headers(headers: Mapping[str, str]) -> None:
    """Raises InvalidInputError for a header that cannot be sent, or that the listener sets."""
    for name, value in headers.items():
        wrong = ""
        if not _HEADER_NAME.fullmatch(name):
            wrong = "its name has other characters than letters, digits and -"
        elif name.lower() in _OWN_HEADERS:
            wrong = "it is set by the server itself"
        elif not value.isprintable() or not value.isascii():
            wrong = "its value has other characters than printable ASCII"
        if wrong:
            raise InvalidInputError(f'cannot use http_api_response_headers "{name}": {wrong}')


def check_exposure(bind: str, access: HttpAccess) -> None:
    """Raises InvalidInputError where HTTP would answer everyone who reaches the port.

    Without access control a client that is answered controls the cluster; with it, tokens must not
    be sent in plain.
    """
    asks = access.tls is not None and (access.tls.verify_client or access.checks_tokens)
    if asks or access.insecure or is_loopback(bind):
        return
    raise InvalidInputError(
        f"cannot serve HTTP on {bind}: other machines would be answered without a token or a "
        "certificate, and whoever is answered controls this cluster; switch access control on and "
        "serve HTTPS with acl { enabled = true } and tls { http = true } (docs/operations.md, "
        '"Start a cluster of three"), or ask for certificates with verify_https_client = true, or '
        "listen on 127.0.0.1, or write insecure_http = true in the configuration if something else "
        "keeps others out"
    )
