"""The exchange of one HTTP request on the calling thread."""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Mapping
from urllib.parse import urljoin, urlsplit

from agent.http_json import DEFAULT_PORTS, HttpService

_MAX_BODY_BYTES = 4 << 20
_PIECE_BYTES = 64 << 10
_TIMEOUTS = 6
"""An answer that comes in small pieces may take this many times the timeout, which is for each."""
_MAX_REDIRECTS = 2
_REDIRECTS = (301, 302, 307, 308)


def exchange(
    service: HttpService, method: str, path: str, data: bytes, headers: Mapping[str, str]
) -> tuple[int, bytes]:
    """Returns status and body, after redirects: a server in standby sends requests to the active
    one, and the headers with them. OSError where there is no answer that can be read."""
    base = urlsplit(service.url)
    url = f"{base.scheme}://{base.netloc}{base.path.rstrip('/')}{path}"
    for _ in range(1 + _MAX_REDIRECTS):
        status, content, location = _exchange(service, method, url, data, headers)
        if status not in _REDIRECTS or not location:
            return status, content
        after = urljoin(url, location)
        if not _may_follow(url, after):
            raise OSError(f"it redirects to {urlsplit(after).netloc or after[:100]}")
        url = after
    raise OSError(f"it redirects more than {_MAX_REDIRECTS} times")


def _may_follow(before: str, after: str) -> bool:
    """Whether a token may be sent there: not in the clear where it was encrypted."""
    try:
        old, new = urlsplit(before), urlsplit(after)
        known = new.scheme in DEFAULT_PORTS and bool(new.hostname) and new.port != 0
    except ValueError:
        return False
    return known and (new.scheme == "https" or old.scheme == "http")


def _exchange(
    service: HttpService, method: str, url: str, data: bytes, headers: Mapping[str, str]
) -> tuple[int, bytes, str]:
    """Returns status, body and the address of a redirect."""
    parts = urlsplit(url)
    assert parts.hostname, "the settings were checked"
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    if parts.scheme == "https":
        connection: http.client.HTTPConnection = _TlsConnection(service, parts.hostname, port)
    else:
        connection = http.client.HTTPConnection(parts.hostname, port, timeout=service.timeout_s)
    end_s = time.monotonic() + _TIMEOUTS * service.timeout_s
    try:
        query = f"?{parts.query}" if parts.query else ""
        connection.request(method, (parts.path or "/") + query, data, dict(headers))
        response = connection.getresponse()
        content = bytearray()
        while piece := response.read1(_PIECE_BYTES):
            content += piece
            if len(content) > _MAX_BODY_BYTES:
                raise OSError(f"the answer is over {_MAX_BODY_BYTES} bytes")
            if time.monotonic() > end_s:
                raise TimeoutError("timed out: the answer comes too slowly")
        if response.length:
            raise OSError("the answer ends before its end")
        return response.status, bytes(content), response.headers.get("Location") or ""
    except (http.client.HTTPException, ValueError) as error:  # the latter: of a header or address
        raise OSError(f"no answer of HTTP: {str(error) or type(error).__name__}") from None
    finally:
        connection.close()


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
