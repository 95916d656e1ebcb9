"""Sends requests to the first of several servers that answers."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import replace

from orchgit.cli.client.exchange import (
    BrokenError,
    ClientRequest,
    ExchangeError,
    NoAnswerError,
    NotConnectedError,
    Pool,
    RequestSender,
    ServerAnswer,
    Url,
)
from orchgit.cli.client.tls_client import TlsClient

CONNECT_S = 3.0
"""Where there is another server to ask."""
FIRST_BYTE_S = 3.0
_TRUSTED_S = 5.0
"""A server that answered within this time is not probed before the next request."""
_SAFE = ("GET", "HEAD")
_PROBE = "/v1/status/leader"


class FirstServer:
    """Sends every request to the server in use; goes on to the next where that does not answer.

    With several servers, one is first probed: a server that accepts connections and says nothing is
    passed over before it has seen the request. So the time that a blocking query, a stream or a
    write may take is not limited here. A write that has been sent is never sent twice; a read is,
    where its answer does not come. `address` is the server in use.
    """

    def __init__(
        self,
        addresses: list[str],
        inner: RequestSender | None = None,
        tls: TlsClient | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
        first_byte_s: float = FIRST_BYTE_S,
    ) -> None:
        """Raises InvalidInputError for an address that cannot be read."""
        self._urls = [Url.parse(one) for one in addresses]
        if inner is None:
            tls = tls or TlsClient()
            is_secure = any(url.scheme == "https" for url in self._urls)
            inner = Pool(tls.context(True) if is_secure else None, tls.server_name)
        self._inner = inner
        self._monotonic_s = monotonic_s
        self._first_byte_s = first_byte_s
        self._current = 0
        self._answered_s: float | None = None

    @property
    def url(self) -> Url:
        return self._urls[self._current]

    @property
    def address(self) -> str:
        return str(self.url)

    def send(self, request: ClientRequest) -> ServerAnswer:
        """Raises ExchangeError: that of the last server."""
        passed_over = (
            (NotConnectedError, NoAnswerError, BrokenError)
            if request.method in _SAFE
            else NotConnectedError
        )
        for attempt in range(len(self._urls)):
            is_last = attempt == len(self._urls) - 1
            error = self._silence() if len(self._urls) > 1 else None
            if error is None:
                try:
                    answer = self._inner.send(self.url, request)
                except passed_over as failed:
                    error = failed
                else:
                    self._answered_s = self._monotonic_s()
                    return answer
            if is_last:
                raise error
            self._current = (self._current + 1) % len(self._urls)
            self._answered_s = None
        raise AssertionError("the loop returns or raises")

    def _silence(self) -> ExchangeError | None:
        """Probes the server in use; returns the error where it does not answer.

        Any answer will do, and a server that answered lately is not probed.
        """
        now_s = self._monotonic_s()
        if self._answered_s is not None and now_s - self._answered_s < _TRUSTED_S:
            return None
        probe = ClientRequest("GET", _PROBE, read_timeout_s=self._first_byte_s)
        probe = replace(probe, connect_timeout_s=CONNECT_S)
        try:
            answer = self._inner.send(self.url, probe)
            answer.read()
            answer.close()
        except ExchangeError as error:
            return error
        return None

    def open_socket(self) -> socket.socket:
        """Returns a connection to the server in use; raises NotConnectedError."""
        return self._inner.open_socket(self.url, CONNECT_S)

    def close(self) -> None:
        self._inner.close()
