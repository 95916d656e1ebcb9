"""consul-template's functions that encode, decode and digest."""

from __future__ import annotations

import base64
import string
from collections.abc import Callable
from typing import Any

from agent.templates.helpers.numbers import named
from orchgit.errors import InvalidInputError
from orchgit.go_templates.functions import GoFunction, any_fn, text_fn
from orchgit.go_templates.go_json import from_json, to_json
from orchgit.go_templates.values import from_bytes, to_bytes

_STANDARD = frozenset((string.ascii_letters + string.digits + "+/").encode())
_URL = frozenset((string.ascii_letters + string.digits + "-_").encode())


def base64_decoded(text: str, for_urls: bool = False) -> str:
    """Raises InvalidInputError with the place of the first wrong byte."""
    data = to_bytes(text).replace(b"\r", b"").replace(b"\n", b"")
    known = _URL if for_urls else _STANDARD
    body = (
        data.rstrip(b"=")
        if len(data) % 4 == 0 and len(data) - len(data.rstrip(b"=")) <= 2
        else data
    )
    for place, byte in enumerate(body):
        if byte not in known:
            raise InvalidInputError(f"illegal base64 data at input byte {place}")
    if len(data) % 4:
        raise InvalidInputError(f"illegal base64 data at input byte {len(data) // 4 * 4}")
    return from_bytes((base64.urlsafe_b64decode if for_urls else base64.b64decode)(data))


def digest(kind: str) -> Callable[[str], str]:
    def hexadecimal(text: str) -> str:
        import hashlib  # loads OpenSSL; not on the start path of the process that renders

        return hashlib.new(kind, to_bytes(text), usedforsecurity=False).hexdigest()

    return hexadecimal


def _hmac(message: str, key: str) -> str:
    import hmac

    return hmac.new(to_bytes(key), to_bytes(message), "sha256").hexdigest()


def _from_yaml(text: str) -> Any:
    from agent.templates.yaml_text import from_yaml  # few templates need YAML, which loads slowly

    return from_yaml(text)


def _to_yaml(value: Any) -> str:
    from agent.templates.yaml_text import to_yaml

    return to_yaml(value)


def _to_toml(value: Any) -> str:
    from agent.templates.toml_text import to_toml

    return to_toml(value)


ENCODINGS: dict[str, GoFunction] = {
    "parseJSON": text_fn(lambda text: from_json(text) if text else {}),
    "parseYAML": text_fn(_from_yaml),
    "toJSON": any_fn(lambda value: named("toJSON", lambda: to_json(value))),
    "toJSONPretty": any_fn(lambda value: named("toJSONPretty", lambda: to_json(value, "  "))),
    "toUnescapedJSON": any_fn(
        lambda value: named("toUnescapedJSON", lambda: to_json(value, for_html=False))
    ),
    "toUnescapedJSONPretty": any_fn(
        lambda value: named("toUnescapedJSONPretty", lambda: to_json(value, "  ", False))
    ),
    "toYAML": any_fn(_to_yaml),
    "toTOML": any_fn(_to_toml),
    "base64Encode": text_fn(lambda text: base64.b64encode(to_bytes(text)).decode()),
    "base64Decode": text_fn(lambda text: named("base64Decode", lambda: base64_decoded(text))),
    "base64URLEncode": text_fn(lambda text: base64.urlsafe_b64encode(to_bytes(text)).decode()),
    "base64URLDecode": text_fn(
        lambda text: named("base64URLDecode", lambda: base64_decoded(text, for_urls=True))
    ),
    "sha256Hex": text_fn(digest("sha256")),
    "md5sum": text_fn(digest("md5")),
    "hmacSHA256Hex": text_fn(_hmac, 2),
}
