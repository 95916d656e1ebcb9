"""Any other host or CI: `X-Signature: sha256=<hex HMAC-SHA256 of the raw body>`. Pure.

The body is `{"url": ..., "ref": ..., "after": ...}`. `X-Delivery` is an id for one use.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from orchgit.errors import InvalidInputError
from orchgit.gitops.webhooks.event import (
    Event,
    PushEvent,
    check_hex_hmac,
    lower_headers,
    require_object,
    text_at,
)


def check(headers: Mapping[str, str], body: bytes, secret: str) -> None:
    """Raises NotAllowedError unless the body was signed with `secret`. Parses nothing."""
    check_hex_hmac(lower_headers(headers).get("x-signature"), "sha256=", body, secret)


def delivery_id(headers: Mapping[str, str]) -> str:
    """Returns the id of the delivery, or ''."""
    return lower_headers(headers).get("x-delivery", "")


def parse(headers: Mapping[str, str], body: bytes) -> Event:
    """Returns the event. Call it after `check`. Raises InvalidInputError for a body without a URL
    and a ref."""
    try:
        document = require_object(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInputError("cannot read a webhook: its body is not JSON") from error
    url, ref = text_at(document, "url"), text_at(document, "ref")
    if not url or not ref:
        raise InvalidInputError("cannot read a webhook: it lacks a url or a ref")
    return PushEvent((url,), ref, text_at(document, "after"))
