"""Decides for agents who may ask them, by the access table of the servers' HTTP."""

from __future__ import annotations

from msgspec.structs import replace

from orchgit.api.access.caller import Caller
from orchgit.api.access.control import AccessControl, Tokens
from orchgit.api.access.remote import RemoteAccess
from orchgit.api.access.table import TABLE
from orchgit.rpc.authorization import Authorize
from orchgit.wire.messages import AuthorizeReply, AuthorizeRequest

_OF_AGENTS = (
    "/v1/client/",
    "/v1/metrics",
    "/v1/agent/host",
    "/v1/agent/monitor",
    "/v1/agent/pprof/",
    "/v1/agent/self",
    "/v1/agent/health",
    "/v1/agent/servers",
    "/v1/agent/reload",
)
"""How the paths begin that agents answer at their own address."""


def authorizer(control: AccessControl | None, tokens: Tokens | None) -> Authorize | None:
    """Returns what decides; None while access control is off. `tokens`: whose a token is."""
    if control is None or tokens is None:
        return None
    remote = RemoteAccess(control, [path for path in TABLE.paths if path.startswith(_OF_AGENTS)])

    def authorize(request: AuthorizeRequest) -> AuthorizeReply:
        refusal = remote.refusal(request.method, request.path, request.query, request.token)
        found = tokens.caller(request.token)
        identity = found.identity if isinstance(found, Caller) else None
        reply = AuthorizeReply()
        if identity is not None:
            reply = AuthorizeReply(
                accessor_id=identity.accessor_id,
                token_name=identity.name,
                token_type=identity.type,
                policies=list(identity.policies),
            )
        if refusal is not None:
            reply = replace(reply, status=refusal.status, text=refusal.text)
        return reply

    return authorize
