"""Sends requests to the first of several servers that answers."""

from __future__ import annotations

import time
from collections.abc import Callable

import httpx

from orchgit.cli.client.tls_client import TlsClient

CONNECT_S = 3.0
"""Where there is another server to ask."""
FIRST_BYTE_S = 3.0
_TRUSTED_S = 5.0
"""A server that answered within this time is not probed before the next request."""
_SAFE = ("GET", "HEAD")
_NOT_THERE = (httpx.ConnectError, httpx.ConnectTimeout)
_FELL_SILENT = (httpx.ReadTimeout, httpx.ReadError, httpx.RemoteProtocolError)


class FirstServer(httpx.BaseTransport):
    """Sends every request to the server in use; goes on to the next where that does not answer.

    With several servers, one is first probed: a server that accepts connections and says nothing is
    passed over before it has seen the request. So the time that a blocking query, a stream or a
    write may take is not limited here. A write that has been sent is never sent twice; a read is,
    where its answer does not come. `address` is the server in use.
    """

    def __init__(
        self,
        addresses: list[str],
        inner: httpx.BaseTransport | None = None,
        tls: TlsClient | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
        first_byte_s: float = FIRST_BYTE_S,
    ) -> None:
        self._urls = [httpx.URL(one if "://" in one else f"http://{one}") for one in addresses]
        self._tls = tls or TlsClient()
        if inner is None:
            context = self._tls.context(any(url.scheme == "https" for url in self._urls))
            inner = httpx.HTTPTransport(verify=context, trust_env=False)
        self._inner = inner
        self._monotonic_s = monotonic_s
        self._first_byte_s = first_byte_s
        self._current = 0
        self._answered_s: float | None = None

    @property
    def address(self) -> str:
        return str(self._urls[self._current]).rstrip("/")

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path
        passed_over = (*_NOT_THERE, *_FELL_SILENT) if request.method in _SAFE else _NOT_THERE
        for attempt in range(len(self._urls)):
            is_last = attempt == len(self._urls) - 1
            error = self._silence() if len(self._urls) > 1 else None
            if error is None:
                self._direct(request, path)
                try:
                    response = self._inner.handle_request(request)
                except passed_over as failed:
                    error = failed
                else:
                    self._answered_s = self._monotonic_s()
                    return response
            if is_last:
                raise error
            self._current = (self._current + 1) % len(self._urls)
            self._answered_s = None
        raise AssertionError("the loop returns or raises")

    def _direct(self, request: httpx.Request, path: bytes) -> None:
        """Sends the request to the server in use."""
        base = self._urls[self._current]
        request.url = base.copy_with(raw_path=base.raw_path.rstrip(b"/") + path)
        request.headers["Host"] = base.netloc.decode()
        if self._tls.server_name:
            request.extensions["sni_hostname"] = self._tls.server_name

    def _silence(self) -> httpx.TransportError | None:
        """Probes the server in use; returns the error where it does not answer.

        Any answer will do, and a server that answered lately is not probed.
        """
        now_s = self._monotonic_s()
        if self._answered_s is not None and now_s - self._answered_s < _TRUSTED_S:
            return None
        timeout = httpx.Timeout(self._first_byte_s, connect=CONNECT_S).as_dict()
        request = httpx.Request("GET", "http://server", extensions={"timeout": timeout})
        self._direct(request, b"/v1/status/leader")
        try:
            response = self._inner.handle_request(request)
            response.read()
            response.close()
        except httpx.TransportError as error:
            return error
        return None

    def close(self) -> None:
        self._inner.close()
