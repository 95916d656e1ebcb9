"""What a request may see of access control objects."""

from __future__ import annotations

from collections.abc import Collection

from orchgit.api.call import ApiCall
from orchgit.services.acl.resolve import Identity, resolve, token_of

_TOKEN_HEADER = b"x-nomad-token"


def secret_of_request(call: ApiCall) -> str:
    """Returns the secret that the request carries; "" without one."""
    given = call.header(_TOKEN_HEADER)
    if given:
        return given.strip()
    scheme, _, rest = (call.header(b"authorization") or "").strip().partition(" ")
    return rest.strip() if scheme.lower() == "bearer" else ""


def _identity(call: ApiCall) -> Identity | None:
    with call.context.snapshot() as snapshot:
        return resolve(snapshot, secret_of_request(call), call.context.now_ns())


def is_management(call: ApiCall) -> bool:
    identity = _identity(call)
    return identity is not None and identity.is_management


def own_policies(call: ApiCall) -> Collection[str]:
    """Returns the names of the caller's policies, those of its roles among them."""
    identity = _identity(call)
    return identity.policies if identity is not None else ()


def own_roles(call: ApiCall) -> Collection[str]:
    """Returns the ids of the caller's roles."""
    with call.context.snapshot() as snapshot:
        token = token_of(snapshot, secret_of_request(call))
    return [link.id for link in token.roles or ()] if token is not None else ()
