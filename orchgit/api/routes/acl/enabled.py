"""Endpoints that answer only where access control is on."""

from __future__ import annotations

from starlette.responses import Response

from orchgit.api.call import ApiCall
from orchgit.api.routing import Endpoint, Handler, endpoint
from orchgit.errors import InvalidInputError


def acl_endpoint(
    path: str,
    *,
    get: Handler | None = None,
    put: Handler | None = None,
    delete: Handler | None = None,
) -> Endpoint:
    """Makes an endpoint that refuses with Nomad's words while access control is off."""
    return endpoint(path, get=_on(get), put=_on(put), delete=_on(delete))


def _on(handler: Handler | None) -> Handler | None:
    if handler is None:
        return None

    async def answer(call: ApiCall) -> Response:
        if not call.services.acl_settings.enabled:
            raise InvalidInputError("ACL support disabled")
        return await handler(call)

    return answer
