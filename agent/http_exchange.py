"""The exchange of one HTTP request on the calling thread."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from agent.http_json import DEFAULT_PORTS, HttpService

_MAX_BODY_BYTES = 4 << 20


def exchange(
    service: HttpService, method: str, path: str, data: bytes, headers: Mapping[str, str]
) -> tuple[int, bytes]:
    """Returns status and body. OSError where there is no answer that can be read."""
    parts = urlsplit(service.url)
    assert parts.hostname, "the settings were checked"
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    if parts.scheme == "https":
        connection: http.client.HTTPConnection = _TlsConnection(service, parts.hostname, port)
    else:
        connection = http.client.HTTPConnection(parts.hostname, port, timeout=service.timeout_s)
    try:
        connection.request(method, parts.path.rstrip("/") + path, data, dict(headers))
        response = connection.getresponse()
        content = response.read(_MAX_BODY_BYTES + 1)
    except http.client.HTTPException as error:
        raise OSError(f"no answer of HTTP: {str(error) or type(error).__name__}") from None
    finally:
        connection.close()
    if len(content) > _MAX_BODY_BYTES:
        raise OSError(f"the answer is over {_MAX_BODY_BYTES} bytes")
    return response.status, content


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
