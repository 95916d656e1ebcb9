"""Repository URLs: which are allowed, and their text without secrets. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from orchgit.errors import InvalidInputError

ALLOWED_PROTOCOLS = ("file", "http", "https", "ssh")

_SCP_LIKE = re.compile(
    r"^(?:(?P<user>[\w.+-]+)@)?(?P<host>[\w.-]+|\[[0-9a-fA-F:]+\]):(?!//)(?P<path>.+)$"
)
_CREDENTIALS = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]{0,30}://)[^/\s@]*@")


@dataclass(frozen=True, slots=True)
class RepositoryUrl:
    """A checked URL; `origin` (scheme, host, port) is what a credential is bound to."""

    text: str
    protocol: str
    host: str = ""
    origin: str = ""
    path: str = ""


def parse_url(text: str) -> RepositoryUrl:
    """Parses a repository URL. Raises InvalidInputError for all but file, http(s) and ssh.

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
        raise _refused(text, "write https://, ssh://, file:// or user@host:path")
    return _ssh(text, match["host"], match["user"] or "", match["path"])


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
        return _ssh(text, host, parts.username or "", parts.path)
    if parts.username or parts.password:
        raise _refused(text, "it holds a user or password: name a credential of the server instead")
    _check_path(text, parts.path)
    origin = f"{scheme}://{host}:{port}" if port else f"{scheme}://{host}"
    return RepositoryUrl(text, scheme, host, origin, parts.path)


def _ssh(text: str, host: str, user: str, path: str) -> RepositoryUrl:
    if host.startswith("-") or user.startswith("-") or path.lstrip("/").startswith("-"):
        raise _refused(text, "a host, user or path must not start with '-'")
    _check_path(text, path)
    return RepositoryUrl(text, "ssh", host, f"ssh://{host}", path)


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
