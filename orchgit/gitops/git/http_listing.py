"""Lists the refs of a repository over HTTP without a git process, on connections that stay open.

Only what is as usual is taken from here. Anything else (a status, a redirect, a certificate, an
odd line, silence) is left to git, which asks again and says what is wrong.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from orchgit.clock import Clock
from orchgit.errors import SourceError
from orchgit.gitops.git.refs import is_commit_id
from orchgit.gitops.git.remotes import Remote

if TYPE_CHECKING:
    import httpx

_MAX_TIMEOUT_S = 5.0
"""Of one listing: a slow remote is left to git and its limits."""
_LEFT_TO_GIT_S = 600.0
_MAX_BYTES = 16 * 1024 * 1024
_MAX_CLIENTS = 64
_CLIENT_AGE_S = 3_600.0
"""A client reads the machine's authorities once."""
_KEEP_OPEN_S = 90.0
_ADVERTISEMENT = "application/x-git-upload-pack-advertisement"
_BEGINNING = b"001e# service=git-upload-pack\n0000"
_HEADERS = {
    "User-Agent": "git/2.39.0 (orchgit)",  # some hosts answer a page to any other program
    "Accept": "*/*",
    "Accept-Encoding": "identity",
}

_log = structlog.get_logger(component="gitops")


@dataclass(slots=True)
class _Client:
    """Connections that trust the same authorities, and when they were made."""

    http: httpx.AsyncClient
    since_s: float


class HttpListings:
    """Lists remotes by HTTP and HTTPS. Those with a proxy or a client certificate are git's, and
    those that take longer than `silence_s`, or than 5 s."""

    def __init__(self, clock: Clock, silence_s: float) -> None:
        self._clock = clock
        self._timeout_s = min(_MAX_TIMEOUT_S, silence_s)
        self._clients: dict[tuple[str, int, str], _Client] = {}
        self._left_until_s: dict[Remote, float] = {}
        """Remotes that are left to git, so that one in trouble is not asked twice each time."""

    async def list(self, remote: Remote) -> bytes | None:
        """Returns the refs as `git ls-remote` writes them, or None where git has to ask."""
        credential = remote.credential
        if (
            remote.url.protocol not in ("http", "https")
            or remote.proxy
            or self._left_until_s.get(remote, 0.0) > self._clock.monotonic_s()
            or "?" in remote.url.text
            or "#" in remote.url.text
            or (credential is not None and credential.client_cert_file)
        ):
            return None
        headers = dict(_HEADERS)
        if credential is not None and (credential.username or credential.password):
            credential.check_origin(remote.url)
            pair = f"{credential.username}:{credential.password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        # What git would ask: nothing of the URL is spelled otherwise.
        slash = "" if remote.url.text.endswith("/") else "/"
        address = f"{remote.url.text}{slash}info/refs?service=git-upload-pack"
        try:
            async with asyncio.timeout(self._timeout_s):
                client = await self._client(remote)
                found = refs_in(await _body(client, address, headers))
        except Exception as error:  # noqa: BLE001 - whatever it is, git says it better
            _log.debug("git lists a remote", url=remote.url.text, error=type(error).__name__)
            found = None
        now_s = self._clock.monotonic_s()
        left = {each: until_s for each, until_s in self._left_until_s.items() if until_s > now_s}
        self._left_until_s = left if found else {**left, remote: now_s + _LEFT_TO_GIT_S}
        return found

    async def _client(self, remote: Remote) -> httpx.AsyncClient:
        """Returns the connections to servers of the remote's authorities."""
        is_https = remote.url.protocol == "https"
        changed_ns = 0
        if is_https and remote.ca_file:
            changed_ns = (await asyncio.to_thread(Path(remote.ca_file).stat)).st_mtime_ns
        key = (remote.ca_file, changed_ns, remote.ca_pem) if is_https else ("", 0, "")
        now_s = self._clock.monotonic_s()
        known = self._clients.get(key)
        if known is not None and now_s - known.since_s < _CLIENT_AGE_S:
            return known.http
        made = _Client(await asyncio.to_thread(_new_client, remote), now_s)
        while len(self._clients) >= _MAX_CLIENTS or key in self._clients:
            oldest = key if key in self._clients else next(iter(self._clients))
            await self._clients.pop(oldest).http.aclose()
        self._clients[key] = made
        return made.http

    async def close(self) -> None:
        """Closes every connection."""
        while self._clients:
            await self._clients.popitem()[1].http.aclose()


def _new_client(remote: Remote) -> httpx.AsyncClient:
    import httpx

    if remote.url.protocol != "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    else:
        context = ssl.create_default_context(
            cafile=remote.ca_file or None, cadata=remote.ca_pem or None
        )
    limits = httpx.Limits(
        max_connections=None, max_keepalive_connections=256, keepalive_expiry=_KEEP_OPEN_S
    )
    return httpx.AsyncClient(
        verify=context,
        limits=limits,
        timeout=_MAX_TIMEOUT_S,
        follow_redirects=False,
        trust_env=False,
    )


async def _body(client: httpx.AsyncClient, address: str, headers: dict[str, str]) -> bytes:
    """Returns the content of an answer of git. Raises SourceError for any other."""
    # Without the header Git-Protocol one answer has all refs; version 2 takes two requests.
    async with client.stream("GET", address, headers=headers) as answer:
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if answer.status_code != 200 or kind != _ADVERTISEMENT:
            raise SourceError(f"cannot list refs: status {answer.status_code}, {kind}")
        if answer.headers.get("content-encoding", "identity") != "identity":
            raise SourceError("cannot list refs: the answer is compressed")
        content = bytearray()
        async for chunk in answer.aiter_raw():
            content += chunk
            if len(content) > _MAX_BYTES:
                raise SourceError("cannot list refs: the answer is too large")
        return bytes(content)


def refs_in(advertisement: bytes) -> bytes | None:
    """Returns the refs of an advertisement as `git ls-remote` writes them; None unless it is whole,
    of git's first protocol, and has a ref. Pure."""
    if not advertisement.startswith(_BEGINNING):
        return None
    lines: list[bytes] = []
    at = len(_BEGINNING)
    while advertisement[at : at + 4] != b"0000":
        try:
            size = int(advertisement[at : at + 4], 16)
        except ValueError:
            return None
        line = advertisement[at + 4 : at + size]
        if size <= 4 or len(line) != size - 4:
            return None
        at += size
        object_id, _, name = line.partition(b"\x00")[0].rstrip(b"\n").partition(b" ")
        if object_id == b"shallow":
            continue
        if not is_commit_id(object_id.decode("latin-1")) or not name:
            return None
        if any(byte <= 32 or byte == 127 for byte in name):
            return None
        lines.append(b"%s\t%s\n" % (object_id, name))
    if at + 4 != len(advertisement) or not lines or lines[0].endswith(b"\tcapabilities^{}\n"):
        return None
    return b"".join(lines)
