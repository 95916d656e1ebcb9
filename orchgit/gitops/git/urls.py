"""Repository URLs: which are allowed, and their text without secrets. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from orchgit.errors import InvalidInputError

ALLOWED_PROTOCOLS = ("file", "git", "http", "https", "ssh")
_DEFAULT_PORTS = {"http": 80, "https": 443, "ssh": 22, "git": 9418}
_PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")

_SCP_LIKE = re.compile(
    r"^(?:(?P<user>[\w.+-]+)@)?(?P<host>[\w.-]+|\[[0-9a-fA-F:]+\]):(?!//)(?P<path>.+)$"
)
_CREDENTIALS = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]{0,30}://)[^/\s@]*@")


@dataclass(frozen=True, slots=True)
class RepositoryUrl:
    """A checked URL; `origin` (scheme, host, port unless it is the scheme's own) is what a
    credential is bound to, '' where there is no login. `port` is 0 for a path."""

    text: str
    protocol: str
    host: str = ""
    origin: str = ""
    path: str = ""
    port: int = 0


def parse_url(text: str) -> RepositoryUrl:
    """Parses a repository URL. Raises InvalidInputError for all but file, git, http(s) and ssh.

    `host:path` is ssh, as in git, and an absolute path is file. `helper::address`, which would run
    a program, is refused; so is a leading `-`, which git or ssh would read as an option.
    """
    if not text or text != text.strip() or any(ord(c) < 32 for c in text):
        raise InvalidInputError(
            f"cannot use repository URL {redact(text)!r}: it is empty or has odd spaces"
        )
    if text.startswith("/"):
        return RepositoryUrl(text, "file", path=text)
    if "://" in text:
        return _parse_full(text)
    match = _SCP_LIKE.match(text)
    if match is None or "::" in text or match["host"] in ALLOWED_PROTOCOLS:
        raise _refused(text, "write https://, ssh://, git://, file:// or user@host:path")
    return _ssh(text, match["host"].strip("[]"), match["user"] or "", match["path"], None)


def _parse_full(text: str) -> RepositoryUrl:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _refused(text, "its host or port cannot be read") from error
    scheme = parts.scheme.lower()
    if scheme not in ALLOWED_PROTOCOLS:
        raise _refused(text, f"its protocol is not one of {', '.join(ALLOWED_PROTOCOLS)}")
    host = parts.hostname or ""
    if scheme == "file":
        if host or not parts.path.startswith("/"):
            raise _refused(text, "a file:// URL has an absolute path and no host")
        if parts.query or parts.fragment or "%" in parts.path:
            raise _refused(text, "a file:// URL is a plain path, without '?', '#' or '%'")
        return RepositoryUrl(text, scheme, path=parts.path)
    if not host:
        raise _refused(text, "it names no host")
    if scheme == "ssh":
        return _ssh(text, host, parts.username or "", parts.path, port)
    if parts.username or parts.password:
        raise _refused(text, "it holds a user or password: name a credential of the server instead")
    _check_path(text, parts.path)
    if scheme == "git" and (host.startswith("-") or parts.path.startswith("/-")):
        raise _refused(text, "a host or path must not start with '-'")
    origin = "" if scheme == "git" else _origin(scheme, host, port)
    return RepositoryUrl(text, scheme, host, origin, parts.path, port or _DEFAULT_PORTS[scheme])


def _origin(scheme: str, host: str, port: int | None) -> str:
    name = f"[{host}]" if ":" in host else host
    is_own = port in (None, _DEFAULT_PORTS[scheme])
    return f"{scheme}://{name.lower()}" + ("" if is_own else f":{port}")


def origin_of(text: str) -> str:
    """Returns an origin in the spelling of `RepositoryUrl.origin`. Raises InvalidInputError for
    anything but `http(s)://host[:port]` and `ssh://host[:port]`."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    is_origin = parts.scheme in ("http", "https", "ssh") and parts.hostname
    if not is_origin or parts.path.strip("/") or parts.query or parts.username:
        raise InvalidInputError(
            f"cannot use origin {redact(text)!r}: it is https://host[:port] or ssh://host[:port]"
        )
    return _origin(parts.scheme, parts.hostname or "", port)


def check_proxy(url: str) -> None:
    """Raises InvalidInputError unless the text is empty or the URL of a proxy."""
    if not url:
        return
    try:
        parts = urlsplit(url)
        is_proxy = parts.scheme in _PROXY_SCHEMES and bool(parts.hostname) and not parts.query
        is_proxy = is_proxy and parts.path in ("", "/") and (parts.port or 1) > 0
    except ValueError:
        is_proxy = False
    if not is_proxy:
        raise InvalidInputError(
            f"cannot use proxy {redact(url)!r}: it is http://host:port, https://, socks5:// or "
            "socks5h://"
        )


def proxy_for(url: RepositoryUrl, proxy: str, no_proxy: Sequence[str]) -> str:
    """Returns the proxy by which to reach the URL, or ''. `no_proxy` are hosts, and domains that
    begin with a dot; '*' is every host. Only HTTP has proxies."""
    if url.protocol not in ("http", "https"):
        return ""
    host = url.host.lower()
    for each in no_proxy:
        name = each.lower()
        if name == "*" or host == name.lstrip(".") or host.endswith(f".{name.lstrip('.')}"):
            return ""
    return proxy


def _ssh(text: str, host: str, user: str, path: str, port: int | None) -> RepositoryUrl:
    if host.startswith("-") or user.startswith("-") or path.lstrip("/").startswith("-"):
        raise _refused(text, "a host, user or path must not start with '-'")
    _check_path(text, path)
    origin = _origin("ssh", host, port)
    return RepositoryUrl(text, "ssh", host, origin, path, port or _DEFAULT_PORTS["ssh"])


def _check_path(text: str, path: str) -> None:
    """Refuses `.` and `..`, so that what a credential's `urls` allow is what the host reads."""
    if any(part in (".", "..") for part in unquote(path).split("/")):
        raise _refused(text, "its path must not have '.' or '..' in it")


def _refused(text: str, why: str) -> InvalidInputError:
    return InvalidInputError(f"cannot use repository URL {redact(text)!r}: {why}")


def redact(text: str) -> str:
    """Returns the text with `user:password@` of every URL in it replaced by `***@`."""
    return _CREDENTIALS.sub(lambda match: f"{match['scheme']}***@", text)


def normalized(url: str) -> str:
    """Returns one spelling of a repository's URLs, host and path, by which a webhook's URL matches
    a source's; '' for a text that is no URL."""
    try:
        parsed = parse_url(redact(url).replace("***@", ""))
    except InvalidInputError:
        return ""
    path = parsed.path.strip("/").removesuffix(".git").lower()
    return f"{parsed.host.lower()}/{path}"
