"""Decides for agents who may ask them, by the access table of the servers' HTTP."""

from __future__ import annotations

from orchgit.api.access.control import AccessControl
from orchgit.api.access.remote import RemoteAccess
from orchgit.api.access.table import TABLE
from orchgit.rpc.authorization import Authorize
from orchgit.wire.messages import AuthorizeReply, AuthorizeRequest

_PREFIX = "/v1/client/"


def authorizer(control: AccessControl | None) -> Authorize | None:
    """Returns what decides; None while access control is off."""
    if control is None:
        return None
    remote = RemoteAccess(control, [path for path in TABLE.paths if path.startswith(_PREFIX)])

    def authorize(request: AuthorizeRequest) -> AuthorizeReply:
        refusal = remote.refusal(request.method, request.path, request.query, request.token)
        return AuthorizeReply() if refusal is None else AuthorizeReply(refusal.status, refusal.text)

    return authorize
