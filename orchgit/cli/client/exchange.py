"""HTTP/1.1 requests over connections that are kept open: what the command line needs of HTTP.

The standard library does it: a command has to start fast, and httpx takes longer to import than
most commands run.
"""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from orchgit.errors import InvalidInputError
from orchgit.printable import printable

_PIECE_BYTES = 64 * 1024
_LONGEST_SAID = 40
"""How much is shown of an answer that is not HTTP."""
_UNIX = "unix://"
_PORTS = {"http": 80, "https": 443}


class ExchangeError(Exception):
    """No answer, or no whole one."""


class NotConnectedError(ExchangeError):
    """The server was not reached: it has not seen the request."""


class NoAnswerError(ExchangeError):
    """The server saw the request, perhaps, and said nothing within the time."""


class BrokenError(ExchangeError):
    """The connection broke after the request was, perhaps, sent."""


class NotHttpError(BrokenError):
    """What answered speaks another protocol, or bad HTTP."""


@dataclass(frozen=True, slots=True)
class Url:
    """A server's address. For the scheme `unix`, `host` is the path of a socket."""

    scheme: str
    host: str
    port: int
    path: str = ""
    """What every path is below; without a slash at the end."""

    @classmethod
    def parse(cls, text: str) -> Url:
        """Reads `http://host:port/base`, `host:port` or `unix:///path`.

        Raises InvalidInputError.
        """
        if text.startswith(_UNIX):
            path = unquote(text.removeprefix(_UNIX))
            if not path.startswith("/"):
                raise InvalidInputError(
                    f"cannot use the address {text!r}: write the whole path of the socket, as in "
                    "unix:///run/orchgit.sock"
                )
            return cls("unix", path, 0)
        parts: SplitResult | None = None
        port: int | None = None
        try:
            parts = urlsplit(text if "://" in text else f"http://{text}")
            port = parts.port
        except ValueError:
            parts = None
        # What is left of `scheme://` without a host reads as a host without a port.
        is_cut = text.endswith(":")
        if parts is None or parts.scheme not in _PORTS or not parts.hostname or is_cut:
            raise InvalidInputError(
                f"cannot use the address {text!r}: write it like http://127.0.0.1:4646"
            )
        path = parts.path.rstrip("/")
        return cls(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], path)

    @property
    def netloc(self) -> str:
        if self.scheme == "unix":
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        if self.scheme == "unix":
            return f"{_UNIX}{self.host}"
        return f"{self.scheme}://{self.netloc}{self.path}"


@dataclass(frozen=True, slots=True)
class ClientRequest:
    method: str
    path: str
    """With the query."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Iterator[bytes] | None = None
    read_timeout_s: float = 60.0
    connect_timeout_s: float = 10.0


class ServerAnswer(Protocol):
    """An answer whose body may not have been read yet. `close` has to be called."""

    status: int
    reason: str

    def header(self, name: str) -> str: ...

    def read(self) -> bytes: ...

    def pieces(self) -> Iterator[bytes]: ...

    def close(self) -> None: ...


class RequestSender(Protocol):
    def send(self, url: Url, request: ClientRequest) -> ServerAnswer: ...

    def open_socket(self, url: Url, timeout_s: float) -> socket.socket: ...

    def close(self) -> None: ...


class _Connection(http.client.HTTPConnection):
    """A connection that is open already, to what `url` names."""

    auto_open = 0

    def __init__(self, url: Url, raw: socket.socket) -> None:
        # Requests name their Host themselves, and a socket's path would not be taken for one.
        super().__init__("localhost")
        self.url = url
        self.sock = raw


class ConnectionAnswer:
    """An answer that a connection is reading."""

    def __init__(
        self, response: http.client.HTTPResponse, connection: _Connection, pool: Pool
    ) -> None:
        self.status = response.status
        self.reason = response.reason
        self._response = response
        self._connection = connection
        self._pool = pool

    def header(self, name: str) -> str:
        """Returns the header, or ""."""
        return self._response.headers.get(name) or ""

    def read(self) -> bytes:
        with _translated():
            return self._response.read()

    def pieces(self) -> Iterator[bytes]:
        """Yields the body as it comes."""
        while True:
            with _translated():
                data = self._response.read1(_PIECE_BYTES)
            if not data:
                return
            yield data

    def close(self) -> None:
        if self._response.isclosed() and not self._response.will_close:
            self._pool.give_back(self._connection)
        else:
            # A connection that the server closes behind its answer no longer knows of the answer.
            self._response.close()
            self._connection.close()


class Pool:
    """Sends requests over connections that are kept open. Threads may share it."""

    def __init__(self, context: ssl.SSLContext | None, server_name: str = "") -> None:
        """`context`: the settings of https://; `server_name`: what certificates have to name."""
        self._context = context
        self._server_name = server_name
        self._idle: list[_Connection] = []
        self._lock = threading.Lock()

    def send(self, url: Url, request: ClientRequest) -> ServerAnswer:
        """Raises ExchangeError."""
        connection = self._connected(url, request.connect_timeout_s)
        try:
            with _translated():
                connection.sock.settimeout(request.read_timeout_s)
                headers = {"Host": url.netloc, "Accept": "*/*", **request.headers}
                # A server that refuses a long body may answer before it has read all of it.
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    connection.request(
                        request.method, url.path + request.path, body=request.body, headers=headers
                    )
                return ConnectionAnswer(connection.getresponse(), connection, self)
        except BaseException:
            connection.close()
            raise

    def give_back(self, connection: _Connection) -> None:
        with self._lock:
            self._idle.append(connection)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for each in idle:
            each.close()

    def _connected(self, url: Url, timeout_s: float) -> _Connection:
        with self._lock:
            same = [each for each in self._idle if each.url == url]
            if same:
                self._idle.remove(same[-1])
        for each in same[-1:]:
            # A connection that has something to read was closed by the server.
            if each.sock is not None and not select.select([each.sock], [], [], 0)[0]:
                return each
            each.close()
        return _Connection(url, self.open_socket(url, timeout_s))

    def open_socket(self, url: Url, timeout_s: float) -> socket.socket:
        """Returns a connection of its own, with TLS for https://; raises NotConnectedError."""
        try:
            if url.scheme == "unix":
                return _unix_socket(url.host, timeout_s)
            raw = socket.create_connection((url.host, url.port), timeout_s)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if url.scheme == "https" and self._context is not None:
                raw = self._context.wrap_socket(raw, server_hostname=self._server_name or url.host)
        except TimeoutError as error:
            raise NotConnectedError(f"no connection within {timeout_s:g} s") from error
        except (OSError, UnicodeError) as error:
            raise NotConnectedError(getattr(error, "strerror", None) or str(error)) from error
        return raw


def _unix_socket(path: str, timeout_s: float) -> socket.socket:
    raw = socket.socket(socket.AF_UNIX)
    try:
        raw.settimeout(timeout_s)
        raw.connect(path)
    except BaseException:
        raw.close()
        raise
    return raw


class _translated:
    """Turns what sockets and http.client raise into ExchangeError."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, TimeoutError):
            raise NoAnswerError("timed out") from error
        if isinstance(error, http.client.RemoteDisconnected | ConnectionError):
            why = getattr(error, "strerror", None) or error
            raise BrokenError(f"the server broke off: {why}") from error
        if isinstance(error, OSError):
            raise BrokenError(str(error)) from error
        if isinstance(error, http.client.IncompleteRead):
            had = len(error.partial)
            came = f": {had} of {had + error.expected} bytes of it came" if error.expected else ""
            raise BrokenError(f"the server broke off its answer{came}") from error
        if isinstance(error, http.client.HTTPException | ValueError):
            said = printable(" ".join(str(error).split()))[:_LONGEST_SAID] or type(error).__name__
            raise NotHttpError(f"the answer is not HTTP ({said})") from error
