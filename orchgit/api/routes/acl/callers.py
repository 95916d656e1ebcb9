"""What a request may see of access control objects."""

from __future__ import annotations

from collections.abc import Collection

from orchgit.api.access.caller import secret_of
from orchgit.api.call import ApiCall
from orchgit.errors import RefusedError
from orchgit.services.acl.resolve import IdentityKind, token_of

NOT_A_UUID = "acl token lookup failed: index error: UUID must be 36 characters"


def secret_of_request(call: ApiCall) -> str:
    """Returns the secret that the request carries; "" without one."""
    return secret_of(call.request.scope["headers"])


def is_workload(call: ApiCall) -> bool:
    """Returns whether a task sends the request, which has no token of the tables."""
    identity = call.access.caller.identity
    return identity is not None and identity.kind == IdentityKind.WORKLOAD


def own_roles(call: ApiCall) -> Collection[str]:
    """Returns the ids of the caller's roles. Raises RefusedError for a task, as Nomad does."""
    if is_workload(call):
        raise RefusedError(NOT_A_UUID)
    with call.context.snapshot() as snapshot:
        token = token_of(snapshot, secret_of_request(call))
    return [link.id for link in token.roles or ()] if token is not None else ()
