"""Tells the audit log whose token a request bears."""

from __future__ import annotations

from starlette.types import Scope

from orchgit.api.access.caller import Caller
from orchgit.api.access.control import Tokens
from orchgit.gitops.remote.access import secret_of
from orchgit.server.audit.audit_log import Identify, nobody
from orchgit.server.audit.records import AuditAuth


def audited_by(tokens: Tokens | None) -> Identify:
    """Returns what finds the token's owner; without access control there is none."""
    if tokens is None:
        return nobody

    def identify(scope: Scope) -> AuditAuth:
        found = tokens.caller(secret_of(scope["headers"]))
        if not isinstance(found, Caller) or found.identity is None:
            return AuditAuth()
        identity = found.identity
        return AuditAuth(
            accessor_id=identity.accessor_id,
            name=identity.name,
            type=identity.type,
            policies=list(identity.policies),
        )

    return identify
