"""Features that this cluster does not have, answered as Nomad answers where they are turned off."""

from __future__ import annotations

from starlette.responses import Response

from orchgit.api.blocking import answer_list
from orchgit.api.call import ApiCall
from orchgit.api.errors import text_response
from orchgit.api.routing import endpoint
from orchgit.api.shapes import nomad_json
from orchgit.errors import InvalidInputError

ANONYMOUS = {
    "AccessorID": "acls-disabled",
    "Name": "ACLs disabled",
    "Type": "management",
    "Policies": None,
    "Roles": None,
    "Global": False,
    "Hash": None,
    "CreateTime": nomad_json.ZERO_TIME,
    "ExpirationTime": None,
    "ExpirationTTL": "",
    "CreateIndex": 0,
    "ModifyIndex": 0,
}


async def acl(call: ApiCall) -> Response:
    raise InvalidInputError("ACL support disabled")


async def own_token(call: ApiCall) -> Response:
    return await answer_list(call, ("namespaces",), lambda snapshot: ANONYMOUS)


async def enterprise(call: ApiCall) -> Response:
    return text_response("Nomad Enterprise only endpoint", 501)


_ENTERPRISE = (
    "/v1/quotas",
    "/v1/quota",
    "/v1/quota-usages",
    "/v1/recommendations",
    "/v1/recommendation",
    "/v1/sentinel/policies",
    "/v1/sentinel/policy/{name}",
)
ENDPOINTS = [
    endpoint("/v1/acl/token/self", get=own_token),
    endpoint("/v1/acl/{rest:path}", get=acl, put=acl, delete=acl),
    *(endpoint(path, get=enterprise, put=enterprise, delete=enterprise) for path in _ENTERPRISE),
]
