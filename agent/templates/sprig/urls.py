"""Sprig's `urlParse` and `urlJoin`, by the rules of Go's net/url."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from agent.templates.sprig.values import to_text
from orchgit.errors import InvalidInputError
from orchgit.go_quote import quote as quoted
from orchgit.go_templates.values import INVALID, from_bytes, to_bytes

_PARTS = ("scheme", "host", "hostname", "path", "query", "opaque", "fragment", "userinfo")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_WRONG_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2}).{0,2}", re.DOTALL)
_PORT = re.compile(r"(?::\d*)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SAFE_PATH = "$&+,/:;=@~!'()*"
_SAFE_FRAGMENT = "$&+,/:;=?@~!'()*"
_SAFE_USER = "$&+,;=~!'()*"
_SAFE_HOST = "!$&'()*+,;=:[]<>\"~"


def parsed_url(text: str) -> dict[str, Any]:
    """Raises InvalidInputError for a text that is no URL."""
    try:
        return _parsed(text)
    except InvalidInputError as error:
        raise InvalidInputError(f"unable to parse url: parse {quoted(text)}: {error}") from None


def _parsed(text: str) -> dict[str, Any]:
    if _CONTROL.search(text):
        raise InvalidInputError("net/url: invalid control character in URL")
    rest, _, fragment = text.partition("#")
    scheme = _SCHEME.match(rest)
    if scheme is None and rest.startswith(":"):
        raise InvalidInputError("missing protocol scheme")
    rest = rest[scheme.end() :] if scheme is not None else rest
    rest, _, query = rest.partition("?")
    found = dict.fromkeys(_PARTS, "")
    found |= {"query": query, "scheme": scheme[1].lower() if scheme is not None else ""}
    is_rooted = rest.startswith("/")
    if not is_rooted and scheme is not None:
        return found | {"opaque": rest, "fragment": _unescaped(fragment)}
    if not is_rooted and ":" in rest.partition("/")[0]:
        raise InvalidInputError("first path segment in URL cannot contain colon")
    if rest.startswith("//") and (scheme is not None or not rest.startswith("///")):
        authority, mark, path = rest[2:].partition("/")
        found |= _authority(authority)
        rest = f"{mark}{path}"
    return found | {"path": _unescaped(rest), "fragment": _unescaped(fragment)}


def _authority(text: str) -> dict[str, str]:
    user, mark, host = text.rpartition("@")
    end = host.rfind("]")
    if host.startswith("["):
        if end < 0:
            raise InvalidInputError("missing ']' in host")
        name, port = host[1:end], host[end + 1 :]
    else:
        name, colon, number = host.rpartition(":") if ":" in host else (host, "", "")
        port = f"{colon}{number}"
    if not _PORT.fullmatch(port):
        raise InvalidInputError(f"invalid port {quoted(port)} after host")
    if " " in host:
        raise InvalidInputError('invalid character " " in host name')
    name, password, secret = (_unescaped(name), *user.partition(":")[1:])
    shown = quote(unquote_to_bytes(user.partition(":")[0]), safe=_SAFE_USER) if mark else ""
    if password:
        shown += f":{quote(unquote_to_bytes(secret), safe=_SAFE_USER)}"
    return {"host": _unescaped(host), "hostname": name, "userinfo": shown}


def _unescaped(text: str) -> str:
    wrong = _WRONG_ESCAPE.search(text)
    if wrong is not None:
        raise InvalidInputError(f"invalid URL escape {quoted(wrong[0])}")
    return from_bytes(unquote_to_bytes(to_bytes(text)))


def joined_url(parts: Any) -> str:
    """Returns the URL that has these parts, escaped."""
    given = {} if parts is INVALID else parts
    scheme, opaque, query = (to_text(given.get(key, "")) for key in ("scheme", "opaque", "query"))
    host, path, fragment = (to_text(given.get(key, "")) for key in ("host", "path", "fragment"))
    user = to_text(given.get("userinfo", ""))
    text = f"{scheme}:" if scheme else ""
    if opaque:
        text += opaque
    else:
        if host or user or (scheme and path.startswith("//")):
            text += f"//{user}@" if user else "//"
            text += quote(to_bytes(host), safe=_SAFE_HOST)
        shown = quote(to_bytes(path), safe=_SAFE_PATH)
        if shown and not shown.startswith("/") and host:
            text += "/"
        if not text and ":" in shown.partition("/")[0]:
            text += "./"
        text += shown
    text += f"?{query}" if query else ""
    return text + (f"#{quote(to_bytes(fragment), safe=_SAFE_FRAGMENT)}" if fragment else "")
