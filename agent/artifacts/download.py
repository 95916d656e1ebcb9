"""Files over HTTP, with limits on size, time and redirects."""

from __future__ import annotations

import contextlib
import http.client
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import IO
from urllib.parse import urlsplit

from agent.artifacts.plan import FetchError

_CHUNK_BYTES = 1 << 20
_SILENCE_TIMEOUT_S = 60.0
_MAX_REDIRECTS = 10
_DEFAULT_PORTS = {"http": 80, "https": 443}


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to HTTP only. The job's headers, which may be credentials, stay with their origin."""

    max_redirections = _MAX_REDIRECTS
    max_repeats = _MAX_REDIRECTS

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        if urlsplit(newurl).scheme not in _DEFAULT_PORTS:
            raise FetchError(f"it redirects to {urlsplit(newurl).scheme or 'nowhere'}, not to HTTP")
        followed = super().redirect_request(req, fp, code, msg, headers, newurl)
        if followed is not None and _origin(newurl) != _origin(req.full_url):
            followed.headers = {}
        return followed


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)


def tls_context(insecure: bool) -> ssl.SSLContext:
    """Made before the process is confined, as it reads the node's certificates."""
    context = ssl.create_default_context()
    if insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class ResponseError(FetchError):
    """The server's answer is an error; `code` is its status."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class Downloader:
    """Fetches the files of one artifact; their bytes and their time are limited together."""

    def __init__(self, tls: ssl.SSLContext, timeout_s: float, max_bytes: int) -> None:
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._deadline_s = time.monotonic() + timeout_s
        self._size = 0
        self._opener = urllib.request.OpenerDirector()  # no handler for files or other protocols
        for handler in (
            urllib.request.ProxyHandler(),
            urllib.request.HTTPHandler(),
            urllib.request.HTTPSHandler(context=tls),
            urllib.request.HTTPErrorProcessor(),
            urllib.request.HTTPDefaultErrorHandler(),
            _Redirects(),
        ):
            self._opener.add_handler(handler)
        self._opener.addheaders = [("User-Agent", "orchgit")]

    def save(
        self,
        url: str,
        headers: Mapping[str, str],
        directory_fd: int,
        name: str,
        seen: Callable[[bytes], None] | None = None,
    ) -> int:
        """Returns the size of the new file `name`; `seen` gets every part of it. Raises FetchError,
        which names what went wrong without the query."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        before = self._size
        with _errors_named(), contextlib.closing(self._open(url, headers)) as answer:
            fd = os.open(name, flags, 0o600, dir_fd=directory_fd)
            with os.fdopen(fd, "wb") as file:
                for chunk in self._chunks(answer):
                    file.write(chunk)
                    if seen is not None:
                        seen(chunk)
        return self._size - before

    def read(
        self, url: str, headers: Mapping[str, str], max_bytes: int, body: bytes | None = None
    ) -> bytes:
        """Returns a short answer, of a POST where there is a `body`."""
        found = b""
        with _errors_named(), contextlib.closing(self._open(url, headers, body)) as answer:
            for chunk in self._chunks(answer):
                found += chunk
                if len(found) > max_bytes:
                    raise FetchError(f"its list is larger than {max_bytes} bytes")
        return found

    def _open(
        self, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> http.client.HTTPResponse:
        request = urllib.request.Request(url, body, dict(headers))  # noqa: S310 - http(s) only
        answer = self._opener.open(request, timeout=min(_SILENCE_TIMEOUT_S, self._timeout_s))
        assert isinstance(answer, http.client.HTTPResponse)
        return answer

    def _chunks(self, answer: http.client.HTTPResponse) -> Iterator[bytes]:
        """The whole body: `read` with a size does not say when a body ends before its length."""
        left, size = answer.length, 0
        while chunk := answer.read(_CHUNK_BYTES):
            size += len(chunk)
            self._size += len(chunk)
            if self._size > self._max_bytes:
                raise FetchError(f"it is larger than {self._max_bytes} bytes")
            if time.monotonic() > self._deadline_s:
                raise FetchError(f"it took longer than {self._timeout_s:g} s")
            yield chunk
        if left is not None and size < left:
            raise FetchError(f"unexpected EOF: the connection ended after {size} of {left} bytes")


@contextlib.contextmanager
def _errors_named() -> Iterator[None]:
    try:
        yield
    except urllib.error.HTTPError as error:
        raise ResponseError(error.code, f"bad response code: {error.code}") from None
    except urllib.error.URLError as error:
        raise FetchError(str(error.reason)) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise FetchError(str(error) or type(error).__name__) from None
