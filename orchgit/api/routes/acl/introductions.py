"""Tokens with which new nodes introduce themselves."""

from __future__ import annotations

from starlette.responses import Response

from orchgit.api.call import ApiCall
from orchgit.api.routes.acl.enabled import acl_endpoint
from orchgit.api.shapes import go_json

_INTRODUCTION = go_json.Fields(
    "structs.ACLCreateClientIntroductionTokenRequest",
    {"NodeName": go_json.text, "NodePool": go_json.text, "TTL": go_json.duration},
)


async def introduce_node(call: ApiCall) -> Response:
    body = await call.fields(_INTRODUCTION, may_be_empty=True)
    name, pool, ttl_ns = body.get("NodeName", ""), body.get("NodePool", ""), body.get("TTL", 0)
    token = await call.services.node_identities.introduce(name, pool, ttl_ns)
    return call.answer({"JWT": token})


ENDPOINTS = [
    acl_endpoint("/v1/acl/identity/client-introduction-token", put=introduce_node),
]
