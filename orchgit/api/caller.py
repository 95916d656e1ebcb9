"""Who sends a request, as far as the server knows.

There are no checked identities yet: the name in `X-Orchgit-User` is what the client claims.
"""

from __future__ import annotations

from urllib.parse import unquote

from orchgit.api.call import ApiCall
from orchgit.model.job import ChangedBy
from orchgit.printable import printable

USER_HEADER = b"x-orchgit-user"
_MAX_TEXT = 120


def changed_by(call: ApiCall, via: str) -> ChangedBy:
    """Returns the author of a change by hand. `via` is the kind of change."""
    client = call.request.client
    return ChangedBy(
        via=via,
        # Clients quote a name that a header cannot hold.
        user=_bounded(unquote(call.header(USER_HEADER) or "", errors="replace")),
        address=client.host if client is not None else "",
        client=_bounded(call.header(b"user-agent") or ""),
    )


def _bounded(text: str) -> str:
    return printable(" ".join(text.split()))[:_MAX_TEXT]
