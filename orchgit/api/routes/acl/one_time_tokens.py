"""One-time tokens: made for a token, exchanged for it once."""

from __future__ import annotations

from starlette.responses import Response

from orchgit.api.call import ApiCall
from orchgit.api.routes.acl.callers import secret_of_request
from orchgit.api.routes.acl.enabled import acl_endpoint
from orchgit.api.shapes import go_json
from orchgit.api.shapes.acl import shown_token
from orchgit.model.base import rfc3339_of_ns
from orchgit.services.acl.one_time_tokens import create_one_time_token, use_one_time_token
from orchgit.services.acl.tokens import shown_roles

_EXCHANGE = go_json.Fields("structs.OneTimeTokenExchangeRequest", {"OneTimeSecretID": go_json.text})


async def create(call: ApiCall) -> Response:
    made = await create_one_time_token(call.services.acl, secret_of_request(call))
    token = made.token
    shown = {
        "OneTimeSecretID": made.secret,
        "AccessorID": token.accessor_id,
        "ExpiresAt": rfc3339_of_ns(token.expires_at_ns),
        "CreateIndex": token.create_index,
        "ModifyIndex": token.modify_index,
    }
    index = token.modify_index
    return call.answer({"Index": index, "OneTimeToken": shown}, index=index)


async def exchange(call: ApiCall) -> Response:
    body = go_json.decode_body(await call.body(), _EXCHANGE)
    secret = body.get("OneTimeSecretID", "")
    found, index = await use_one_time_token(call.services.acl, secret)
    with call.context.snapshot() as snapshot:
        roles = shown_roles(snapshot, found.token)
    shown = shown_token(found.token, roles, found.secret)
    return call.answer({"Index": index, "Token": shown}, index=index)


ENDPOINTS = [
    acl_endpoint("/v1/acl/token/onetime", put=create),
    acl_endpoint("/v1/acl/token/onetime/exchange", put=exchange),
]
