"""Tokens with which new nodes introduce themselves."""

from __future__ import annotations

from starlette.responses import Response

from orchgit.api.call import ApiCall
from orchgit.api.routes.acl.enabled import acl_endpoint
from orchgit.api.shapes import nomad_json
from orchgit.durations import parse_setting_ns
from orchgit.errors import InvalidInputError


async def introduce_node(call: ApiCall) -> Response:
    body = await call.json() if await call.body() else {}
    name, pool = (nomad_json.get(body, key, "") for key in ("NodeName", "NodePool"))
    ttl = nomad_json.get(body, "TTL")
    if not isinstance(name, str) or not isinstance(pool, str):
        raise InvalidInputError("cannot introduce a node: NodeName and NodePool are texts")
    ttl_ns = parse_setting_ns("TTL", ttl) if isinstance(ttl, str) and ttl else ttl or 0
    if not isinstance(ttl_ns, int):
        raise InvalidInputError("cannot introduce a node: TTL is a length of time, such as 5m")
    token = await call.services.node_identities.introduce(name, pool, ttl_ns)
    return call.answer({"JWT": token})


ENDPOINTS = [
    acl_endpoint("/v1/acl/identity/client-introduction-token", put=introduce_node),
]
