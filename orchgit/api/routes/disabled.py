"""Features that this cluster does not have, answered as Nomad answers where they are turned off."""

from __future__ import annotations

from starlette.responses import Response

from orchgit.api.call import ApiCall
from orchgit.api.errors import VARY, text_response
from orchgit.api.routes.acl.enabled import acl_endpoint
from orchgit.api.routing import endpoint
from orchgit.errors import InvalidInputError, RefusedError


async def acl(call: ApiCall) -> Response:
    """Answers paths below `/v1/acl` that do not exist."""
    if call.services.acl_settings.enabled:
        return Response(status_code=404, headers=VARY)
    raise InvalidInputError("ACL support disabled")


async def introduce_node(call: ApiCall) -> Response:
    raise RefusedError(
        "cannot introduce a node by a token: agents join with certificates of the cluster "
        "(docs/security.md)"
    )


async def enterprise(call: ApiCall) -> Response:
    return text_response("Nomad Enterprise only endpoint", 501)


_ENTERPRISE = (
    "/v1/recommendations",
    "/v1/recommendation",
    "/v1/sentinel/policies",
    "/v1/sentinel/policy/{name}",
)
ENDPOINTS = [
    acl_endpoint("/v1/acl/identity/client-introduction-token", put=introduce_node),
    endpoint("/v1/acl/{rest:path}", get=acl, put=acl, delete=acl),
    *(endpoint(path, get=enterprise, put=enterprise, delete=enterprise) for path in _ENTERPRISE),
]
