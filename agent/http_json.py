"""One HTTP request with JSON to a service beside the agent (Consul, Vault), on a thread."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import msgspec

from orchgit.errors import UnreachableError

_MAX_BODY_BYTES = 4 << 20
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpService:
    """Where a service is, and how it is spoken to."""

    url: str
    """http://HOST:PORT or https://HOST:PORT."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: str = ""
    """"": the machine's authorities."""
    cert_file: str = ""
    key_file: str = ""
    verify: bool = True
    server_name: str = ""
    timeout_s: float = 10.0

    def problem(self) -> str:
        """What is wrong with the settings; "" if nothing."""
        try:
            parts = urlsplit(self.url)
            known = parts.scheme in _DEFAULT_PORTS and bool(parts.hostname) and parts.port != 0
        except ValueError:
            known = False
        return "" if known else f'"{self.url}" is no address: write http://HOST:PORT'


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: Any
    """The decoded JSON; the text where the body is none; None without a body."""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


async def request(
    service: HttpService,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Returns the reply, whatever its status. UnreachableError where none comes in time."""
    data = b"" if body is None else msgspec.json.encode(body)
    sent = {**service.headers, **(headers or {}), "Content-Type": "application/json"}
    try:
        return await asyncio.to_thread(_exchange, service, method, path, data, sent)
    except (OSError, http.client.HTTPException, ssl.SSLError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise UnreachableError(f"cannot reach {service.url}: {reason}") from None


def _exchange(
    service: HttpService, method: str, path: str, data: bytes, headers: Mapping[str, str]
) -> Reply:
    parts = urlsplit(service.url)
    assert parts.hostname, "the settings were checked"
    port = parts.port or _DEFAULT_PORTS[parts.scheme]
    if parts.scheme == "https":
        connection: http.client.HTTPConnection = _TlsConnection(service, parts.hostname, port)
    else:
        connection = http.client.HTTPConnection(parts.hostname, port, timeout=service.timeout_s)
    try:
        connection.request(method, parts.path.rstrip("/") + path, data, dict(headers))
        response = connection.getresponse()
        content = response.read(_MAX_BODY_BYTES + 1)
    finally:
        connection.close()
    if len(content) > _MAX_BODY_BYTES:
        raise http.client.HTTPException(f"the answer is over {_MAX_BODY_BYTES} bytes")
    try:
        return Reply(response.status, msgspec.json.decode(content) if content else None)
    except msgspec.DecodeError:
        return Reply(response.status, content.decode("utf-8", "replace").strip())


class _TlsConnection(http.client.HTTPSConnection):
    """As its base, with a name for the certificate that may differ from the host's."""

    def __init__(self, service: HttpService, host: str, port: int) -> None:
        context = ssl.create_default_context(cafile=service.ca_file or None)
        if service.cert_file:
            context.load_cert_chain(service.cert_file, service.key_file or None)
        if not service.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        super().__init__(host, port, timeout=service.timeout_s, context=context)
        self._tls_context, self._tls_name = context, service.server_name or host

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls_context.wrap_socket(self.sock, server_hostname=self._tls_name)
