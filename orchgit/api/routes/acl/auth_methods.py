"""Auth methods: list, read, write, delete. Their secrets are never shown."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from orchgit.api.blocking import answer_list, answer_object
from orchgit.api.call import ApiCall
from orchgit.api.routes.acl.enabled import acl_endpoint
from orchgit.api.shapes import go_json
from orchgit.api.shapes.acl import auth_method_stub, shown_auth_method
from orchgit.errors import InvalidInputError
from orchgit.model.acl import (
    AclAuthMethod,
    AuthMethodConfig,
    ClientAssertion,
    ClientAssertionKey,
)
from orchgit.services.acl.auth_methods import delete_auth_method, put_auth_method
from orchgit.state.snapshot import Snapshot

_TABLES = ("acl_auth_methods",)
_KEY = go_json.fields_of(ClientAssertionKey, "structs.OIDCClientAssertionKey")
_ASSERTION = go_json.fields_of(
    ClientAssertion, "structs.OIDCClientAssertion", PrivateKey=go_json.struct(_KEY)
)
_CONFIG = go_json.fields_of(
    AuthMethodConfig, "structs..Alias", OIDCClientAssertion=go_json.struct(_ASSERTION)
)
_METHOD = go_json.Fields(
    "structs..Alias",
    {
        "Name": go_json.text,
        "Type": go_json.text,
        "TokenLocality": go_json.text,
        "TokenNameFormat": go_json.text,
        "MaxTokenTTL": go_json.duration,
        "Default": go_json.flag,
        "Config": go_json.struct(_CONFIG),
    },
)


async def list_auth_methods(call: ApiCall) -> Response:
    def read(snapshot: Snapshot) -> Any:
        return [auth_method_stub(each) for each in snapshot.acl_auth_methods.all()]

    return await answer_list(call, _TABLES, read)


async def read_auth_method(call: ApiCall) -> Response:
    name = _name(call)
    return await answer_object(
        call,
        _TABLES,
        lambda snapshot: snapshot.acl_auth_methods.get(name),
        "ACL auth-method not found",
        shown_auth_method,
        key=name,
    )


async def write_auth_method(call: ApiCall) -> Response:
    body = go_json.decode_body(await call.body(), _METHOD)
    in_path, name = _name(call) if "name" in call.path else "", body.get("Name", "")
    if in_path and in_path != name:
        raise InvalidInputError("ACL auth-method name does not match request path")
    method = AclAuthMethod(
        name=name,
        type=body.get("Type", ""),
        token_locality=body.get("TokenLocality", ""),
        token_name_format=body.get("TokenNameFormat", ""),
        max_token_ttl_ns=body.get("MaxTokenTTL", 0),
        default=body.get("Default", False),
        config=_config(body["Config"]) if "Config" in body else None,
    )
    stored = await put_auth_method(call.services.acl, method)
    return call.answer(shown_auth_method(stored), index=stored.modify_index)


def _config(given: dict[str, Any]) -> AuthMethodConfig:
    config: AuthMethodConfig = go_json.made(AuthMethodConfig, given)
    assertion = given.get("OIDCClientAssertion")
    if assertion is not None:
        config.oidc_client_assertion = go_json.made(ClientAssertion, assertion)
        key = assertion.get("PrivateKey")
        if key is not None:
            config.oidc_client_assertion.private_key = go_json.made(ClientAssertionKey, key)
    return config


async def remove_auth_method(call: ApiCall) -> Response:
    return call.empty(index=await delete_auth_method(call.services.acl, _name(call)))


def _name(call: ApiCall) -> str:
    if not call.path["name"]:
        raise InvalidInputError("missing ACL auth-method name")
    return call.path["name"]


ENDPOINTS = [
    acl_endpoint("/v1/acl/auth-methods", get=list_auth_methods),
    acl_endpoint("/v1/acl/auth-method", put=write_auth_method),
    acl_endpoint(
        "/v1/acl/auth-method/{name:path}",
        get=read_auth_method,
        put=write_auth_method,
        delete=remove_auth_method,
    ),
]
