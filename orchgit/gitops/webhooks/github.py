"""GitHub: `X-Hub-Signature-256: sha256=<hex HMAC-SHA256 of the raw body>`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qs

import msgspec

from orchgit.errors import InvalidInputError
from orchgit.gitops.webhooks.event import (
    MAX_URLS,
    Event,
    PingEvent,
    PushEvent,
    check_hex_hmac,
    lower_headers,
    require_object,
    text_at,
)

_URLS = ("clone_url", "ssh_url", "git_url", "html_url", "url")


def check(headers: Mapping[str, str], body: bytes, secret: str) -> None:
    """Raises NotAllowedError unless the body was signed with `secret`. Parses nothing."""
    signature = lower_headers(headers).get("x-hub-signature-256")
    check_hex_hmac(signature, "sha256=", body, secret)


def delivery_id(headers: Mapping[str, str]) -> str:
    """Returns the id of the delivery, or ''."""
    return lower_headers(headers).get("x-github-delivery", "")


def parse(headers: Mapping[str, str], body: bytes) -> Event:
    """Returns the event. Call it after `check`. Raises InvalidInputError for a body that is no
    GitHub event."""
    given = lower_headers(headers)
    if given.get("x-github-event") != "push":
        return PingEvent()
    document = require_object(_document(given.get("content-type", ""), body))
    repository = require_object(document.get("repository"))
    urls = [text_at(repository, name) for name in _URLS]
    ref = text_at(document, "ref")
    if not ref or not any(urls):
        raise InvalidInputError("cannot read a push event: it lacks a ref or the repository's URLs")
    found = tuple(url for url in urls if url)[:MAX_URLS]
    return PushEvent(found, ref, text_at(document, "after"))


def _document(content_type: str, body: bytes) -> object:
    """Decodes the body: JSON, or a form with JSON in its `payload` field. GitHub sends either."""
    if content_type.partition(";")[0].strip() == "application/x-www-form-urlencoded":
        try:
            fields = parse_qs(body.decode("ascii"), max_num_fields=10)
        except ValueError as error:
            raise InvalidInputError("cannot read a webhook: its form is broken") from error
        body = fields.get("payload", [""])[0].encode("utf-8", "replace")
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInputError("cannot read a webhook: its body is not JSON") from error
