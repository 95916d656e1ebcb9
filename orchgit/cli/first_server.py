"""One of several servers: the first that a connection can be made to."""

from __future__ import annotations

import httpx

from orchgit.cli.tls_client import TlsClient


class FirstServer(httpx.BaseTransport):
    """Sends every request to the server in use; goes on to the next where none answers the door.

    A request that has been sent is never sent twice. `address` is the server in use.
    """

    def __init__(
        self,
        addresses: list[str],
        inner: httpx.BaseTransport | None = None,
        tls: TlsClient | None = None,
    ) -> None:
        self._urls = [httpx.URL(one if "://" in one else f"http://{one}") for one in addresses]
        self._tls = tls or TlsClient()
        self._inner = inner or self._transport()
        self._current = 0

    def _transport(self) -> httpx.BaseTransport:
        context = self._tls.context(any(url.scheme == "https" for url in self._urls))
        return httpx.HTTPTransport(verify=context, trust_env=False)

    @property
    def address(self) -> str:
        return str(self._urls[self._current]).rstrip("/")

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path
        for attempt in range(len(self._urls)):
            base = self._urls[self._current]
            request.url = base.copy_with(raw_path=base.raw_path.rstrip(b"/") + path)
            request.headers["Host"] = base.netloc.decode()
            if self._tls.server_name:
                request.extensions["sni_hostname"] = self._tls.server_name
            try:
                return self._inner.handle_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                self._current = (self._current + 1) % len(self._urls)
                if attempt == len(self._urls) - 1:
                    raise
        raise AssertionError("the loop returns or raises")

    def close(self) -> None:
        self._inner.close()
