"""Proves to a node's agent that a server sends a request, and has checked who asks for it.

The servers and the node share the node's secret; the proof is an HMAC over what the request asks.
"""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import parse_qsl

from orchgit.whole_number import whole_number

HEADER = b"x-orchgit-checked"
MAX_AGE_S = 300
"""How old a proof may be, and how far the clocks of server and node may differ."""
_NS_PER_S = 1_000_000_000


def proof(secret: str, method: str, path: str, query: bytes, now_ns: int) -> bytes:
    """Returns the value of `HEADER`. `path` is decoded; of the query only its pairs count."""
    at_s = now_ns // _NS_PER_S
    return f"{at_s}.{_mac(secret, method, path, query, at_s)}".encode()


def is_proven(secret: str, method: str, path: str, query: bytes, now_ns: int, value: bytes) -> bool:
    """Returns whether a server that knows the node's secret made `value` for this request."""
    at_text, _, mac = value.decode("latin-1").partition(".")
    at_s = whole_number(at_text)
    if at_s is None or abs(now_ns // _NS_PER_S - at_s) > MAX_AGE_S:
        return False
    wanted = _mac(secret, method, path, query, at_s)
    return hmac.compare_digest(wanted.encode(), mac.encode("latin-1"))


def _mac(secret: str, method: str, path: str, query: bytes, at_s: int) -> str:
    pairs = sorted(parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    text = repr((method, path, pairs, at_s)).encode()
    return hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()
