"""Logging in: by a signed token, or through a browser by OpenID Connect."""

from __future__ import annotations

from starlette.responses import Response

from orchgit.api.call import ApiCall
from orchgit.api.routes.acl.enabled import acl_endpoint
from orchgit.api.routes.acl.tokens import answer_new
from orchgit.api.shapes import go_json
from orchgit.services.acl.logins import Login, login
from orchgit.services.acl.oidc import (
    AuthUrlRequest,
    CompleteAuthRequest,
    auth_url,
    complete_auth,
)

MAX_BODY_BYTES = 128 * 1024
_LOGIN = go_json.Fields(
    "structs.ACLLoginRequest", {"AuthMethodName": go_json.text, "LoginToken": go_json.text}
)
_AUTH_URL = go_json.Fields(
    "structs.ACLOIDCAuthURLRequest",
    {
        "AuthMethodName": go_json.text,
        "RedirectURI": go_json.text,
        "ClientNonce": go_json.text,
    },
)
_COMPLETE = go_json.Fields(
    "structs.ACLOIDCCompleteAuthRequest",
    {
        "AuthMethodName": go_json.text,
        "ClientNonce": go_json.text,
        "State": go_json.text,
        "Code": go_json.text,
        "RedirectURI": go_json.text,
    },
)


async def log_in(call: ApiCall) -> Response:
    body = go_json.decode_body(await call.body(MAX_BODY_BYTES), _LOGIN)
    request = Login(body.get("AuthMethodName", ""), body.get("LoginToken", ""))
    return answer_new(call, await login(call.services.acl, request))


async def begin_oidc(call: ApiCall) -> Response:
    body = go_json.decode_body(await call.body(MAX_BODY_BYTES), _AUTH_URL)
    request = AuthUrlRequest(
        auth_method_name=body.get("AuthMethodName", ""),
        redirect_uri=body.get("RedirectURI", ""),
        client_nonce=body.get("ClientNonce", ""),
    )
    return call.answer({"AuthURL": await auth_url(call.services.acl, request)})


async def complete_oidc(call: ApiCall) -> Response:
    body = go_json.decode_body(await call.body(MAX_BODY_BYTES), _COMPLETE)
    request = CompleteAuthRequest(
        auth_method_name=body.get("AuthMethodName", ""),
        redirect_uri=body.get("RedirectURI", ""),
        client_nonce=body.get("ClientNonce", ""),
        state=body.get("State", ""),
        code=body.get("Code", ""),
    )
    return answer_new(call, await complete_auth(call.services.acl, request))


ENDPOINTS = [
    acl_endpoint("/v1/acl/login", put=log_in),
    acl_endpoint("/v1/acl/oidc/auth-url", put=begin_oidc),
    acl_endpoint("/v1/acl/oidc/complete-auth", put=complete_oidc),
]
