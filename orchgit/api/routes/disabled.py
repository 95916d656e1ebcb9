"""Features that this cluster does not have, answered as Nomad answers where they are turned off."""

from __future__ import annotations

from starlette.responses import Response

from orchgit.api.call import ApiCall
from orchgit.api.errors import VARY, text_response
from orchgit.api.routing import endpoint
from orchgit.errors import InvalidInputError


async def acl(call: ApiCall) -> Response:
    """Answers paths below `/v1/acl` that do not exist."""
    if call.services.acl_settings.enabled:
        return Response(status_code=404, headers=VARY)
    raise InvalidInputError("ACL support disabled")


async def enterprise(call: ApiCall) -> Response:
    return text_response("Nomad Enterprise only endpoint", 501)


_ENTERPRISE = (
    "/v1/recommendations",
    "/v1/recommendations/apply",
    "/v1/recommendation",
    "/v1/recommendation/{id}",
    "/v1/sentinel/policies",
    "/v1/sentinel/policy/{name}",
)
ENDPOINTS = [
    endpoint("/v1/acl/{rest:path}", get=acl, put=acl, delete=acl),
    *(endpoint(path, get=enterprise, put=enterprise, delete=enterprise) for path in _ENTERPRISE),
]
