"""Who sends a request and what the sender may do."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from orchgit.acl.rights import MANAGEMENT, Rights
from orchgit.services.acl.resolve import Identity


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request. `identity` is None while access control is off."""

    rights: Rights
    identity: Identity | None = None
    allowed: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)
    """What access control has allowed this caller: see `AccessControl.allowed_before`."""

    @property
    def policies(self) -> tuple[str, ...]:
        return self.identity.policies if self.identity is not None else ()

    @property
    def accessor_id(self) -> str:
        return self.identity.accessor_id if self.identity is not None else ""


OPEN = Caller(MANAGEMENT)
"""Every caller while access control is off."""


@dataclass(frozen=True, slots=True)
class BadTokenReason:
    """Why a token is no caller's. `is_unknown`: it has the form of a token, and nobody has it.

    A reason that is not `is_lasting` may end with time: a token of a workload may be too young.
    """

    text: str
    is_unknown: bool = False
    is_lasting: bool = False


UNKNOWN_TOKEN = BadTokenReason("Permission denied", is_unknown=True, is_lasting=True)
EXPIRED_TOKEN = BadTokenReason("ACL token expired", is_lasting=True)


def secret_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Returns the token of a request's headers, "" without one: `X-Nomad-Token`, or else
    `Authorization: Bearer`."""
    bearer = ""
    for name, value in headers:
        if name == b"x-nomad-token" and value:
            return value.decode("latin-1").strip()
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            bearer = value[7:].decode("latin-1").strip()
    return bearer
