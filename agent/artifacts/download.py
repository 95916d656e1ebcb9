"""One file over HTTP, with limits on size, time and redirects."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import IO
from urllib.parse import urlsplit

from agent.artifacts.plan import FetchError, FetchPlan

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


def download(plan: FetchPlan, directory_fd: int, name: str, tls: ssl.SSLContext) -> int:
    """The size of the new file `name`. FetchError names what went wrong, without the query."""
    digests = {
        text.partition(":")[0]: hashlib.new(text.partition(":")[0]) for text in plan.checksums
    }
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    size = 0
    try:
        with contextlib.closing(_open(plan, tls)) as answer:
            fd = os.open(name, flags, 0o600, dir_fd=directory_fd)
            with os.fdopen(fd, "wb") as file:
                for chunk in _chunks(answer, plan):
                    size += len(chunk)
                    file.write(chunk)
                    for digest in digests.values():
                        digest.update(chunk)
    except urllib.error.HTTPError as error:
        raise FetchError(f"HTTP {error.code} {error.reason}", recoverable=True) from None
    except urllib.error.URLError as error:
        raise FetchError(str(error.reason), recoverable=True) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise FetchError(str(error) or type(error).__name__, recoverable=True) from None
    for text in plan.checksums:
        kind, _, wanted = text.partition(":")
        if (found := digests[kind].hexdigest()) != wanted:
            raise FetchError(f"its {kind} is {found}, not {wanted}")
    return size


def _open(plan: FetchPlan, tls: ssl.SSLContext) -> http.client.HTTPResponse:
    opener = urllib.request.OpenerDirector()  # with no handler for files or other protocols
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=tls),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
        _Redirects(),
    ):
        opener.add_handler(handler)
    opener.addheaders = [("User-Agent", "orchgit")]
    request = urllib.request.Request(plan.url, headers=plan.headers)  # noqa: S310 - http(s) only
    answer = opener.open(request, timeout=_SILENCE_TIMEOUT_S)
    assert isinstance(answer, http.client.HTTPResponse)
    return answer


def _chunks(answer: http.client.HTTPResponse, plan: FetchPlan) -> Iterator[bytes]:
    """The whole body: `read` with a size does not say when a body ends before its length."""
    deadline_s = time.monotonic() + plan.limits.read_timeout_s
    left, size = answer.length, 0
    while chunk := answer.read(_CHUNK_BYTES):
        size += len(chunk)
        if size > plan.limits.max_download_bytes:
            raise FetchError(f"it is larger than {plan.limits.max_download_bytes} bytes")
        if time.monotonic() > deadline_s:
            raise FetchError(f"it took longer than {plan.limits.read_timeout_s:g} s", True)
        yield chunk
    if left is not None and size < left:
        raise FetchError(f"the connection ended after {size} of {left} bytes", recoverable=True)
