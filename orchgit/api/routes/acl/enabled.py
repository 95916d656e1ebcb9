"""Endpoints that answer only where access control is on."""

from __future__ import annotations

import functools

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
    """Makes an endpoint that refuses with Nomad's words while access control is off. What it writes
    is known to all servers in touch before it is answered."""
    return endpoint(path, get=_on(get), put=_on(put, writes=True), delete=_on(delete, writes=True))


def _on(handler: Handler | None, writes: bool = False) -> Handler | None:
    if handler is None:
        return None

    @functools.wraps(handler)
    async def answer(call: ApiCall) -> Response:
        if not call.services.acl_settings.enabled:
            raise InvalidInputError("ACL support disabled")
        response = await handler(call)
        if writes:
            index = call.context.state.store.watch.applied_index
            await call.api.until_applied_everywhere(index)
        return response

    return answer
