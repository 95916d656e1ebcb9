"""Who sends a request, as far as the server knows.

While access control is on, the name is that of the request's token. Without it, nobody has checked
what the client claims in `X-Orchgit-User`.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from orchgit.api.call import ApiCall
from orchgit.api.shapes import nomad_json
from orchgit.model.author import Author
from orchgit.model.job import ChangedBy
from orchgit.printable import printable

USER_HEADER = b"x-orchgit-user"
_MAX_TEXT = 120


def changed_by(call: ApiCall, via: str) -> ChangedBy:
    """Returns the author of a change by hand. `via` is the kind of change."""
    return ChangedBy(
        via=via,
        user=user_name(call),
        is_verified=call.author is not None,
        address=_address(call),
        client=_bounded(call.header(b"user-agent") or ""),
    )


def note_claimed_author(call: ApiCall) -> None:
    """Has who sends the request, by its own account, recorded with what the request writes."""
    call.claim_author(Author(name=user_name(call), is_claimed=True, address=_address(call)))


def _address(call: ApiCall) -> str:
    client = call.request.client
    return client.host if client is not None else ""


def user_name(call: ApiCall, claimed: str = "") -> str:
    """Returns the name of the request's token, or its accessor where it has none.

    While access control is off, returns the name that the client claims: `claimed`, or what its
    header says.
    """
    if call.author is not None:
        return _bounded(call.author.name or call.author.accessor_id)
    # Clients quote a name that a header cannot hold.
    return claimed or _bounded(unquote(call.header(USER_HEADER) or "", errors="replace"))


def name_of_person(call: ApiCall, body: dict[str, Any]) -> str:
    """Returns who acts: the name of the token, or without access control what the body claims."""
    claimed: str = nomad_json.get(body, "By", "")
    return claimed if call.author is None else user_name(call)


def _bounded(text: str) -> str:
    return printable(" ".join(text.split()))[:_MAX_TEXT]
