"""The events of webhooks, and the checks that all hosts' modules share."""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from orchgit.errors import ConflictError, InvalidInputError, NotAllowedError

MAX_URLS = 10


@dataclass(frozen=True, slots=True)
class PushEvent:
    """A ref moved to the commit `after`. `repository_urls` are spellings of one repository's
    URL."""

    repository_urls: tuple[str, ...]
    ref: str
    after: str


@dataclass(frozen=True, slots=True)
class PingEvent:
    """The host tests the webhook, or tells of something that is no push."""


Event = PushEvent | PingEvent


def check_hex_hmac(signature: str | None, prefix: str, body: bytes, secret: str) -> None:
    """Raises NotAllowedError unless `signature` is the HMAC-SHA256 of the raw body."""
    if not secret:
        raise NotAllowedError("cannot accept a webhook: no secret is set for this source")
    if not signature or not signature.startswith(prefix):
        raise NotAllowedError("cannot accept a webhook: its signature is missing")
    expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    given = signature.removeprefix(prefix).encode("utf-8", "replace")
    if not hmac.compare_digest(given, expected.encode()):
        raise NotAllowedError("cannot accept a webhook: its signature is wrong")


def lower_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Returns the headers by lower-case name."""
    return {name.lower(): value for name, value in headers.items()}


def text_at(document: object, *path: str) -> str:
    """Returns the string at a path of nested objects, or '' if there is none."""
    for name in path:
        if not isinstance(document, dict):
            return ""
        document = document.get(name)
    return document if isinstance(document, str) else ""


def require_object(document: object) -> dict[str, object]:
    """Returns the document. Raises InvalidInputError unless it is a JSON object."""
    if not isinstance(document, dict):
        raise InvalidInputError("cannot read a webhook: its body is not a JSON object")
    return document


class Deliveries:
    """The ids of the latest deliveries, so that a recorded delivery cannot be replayed."""

    def __init__(self, kept: int = 10_000) -> None:
        self._kept = kept
        self._seen: OrderedDict[tuple[str, str], None] = OrderedDict()

    def accept(self, host: str, delivery_id: str) -> None:
        """Accepts an id once. Raises ConflictError for one that was accepted before, and
        InvalidInputError for none. Call it after the signature was checked, so that nobody else can
        use ids up."""
        if not delivery_id or len(delivery_id) > 200:
            raise InvalidInputError("cannot accept a webhook: its delivery id is missing")
        if (host, delivery_id) in self._seen:
            raise ConflictError(f"cannot accept delivery {delivery_id}: it was accepted before")
        self._seen[host, delivery_id] = None
        while len(self._seen) > self._kept:
            self._seen.popitem(last=False)
