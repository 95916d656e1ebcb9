"""Tokens: bootstrap, create, change, delete, list, one's own, one-time tokens."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from starlette.responses import Response

from orchgit.api.blocking import answer_list, answer_object
from orchgit.api.call import ApiCall
from orchgit.api.pagination import PageRequest
from orchgit.api.routes.acl.callers import NOT_A_UUID, is_workload, secret_of_request
from orchgit.api.routes.acl.enabled import acl_endpoint
from orchgit.api.routing import endpoint
from orchgit.api.shapes import go_json
from orchgit.api.shapes.acl import ANONYMOUS_TOKEN, NO_ACCESS_CONTROL, shown_token, token_stub
from orchgit.errors import InvalidInputError, NotAllowedError, NotFoundError, RefusedError
from orchgit.model.acl import AclToken, RoleLink, without_secret
from orchgit.services.acl.bootstrap import bootstrap
from orchgit.services.acl.resolve import token_of
from orchgit.services.acl.tokens import (
    NewToken,
    WantedToken,
    delete_tokens,
    put_token,
    secret_of,
    shown_roles,
)
from orchgit.services.identifiers import is_uuid
from orchgit.state.snapshot import Snapshot

_TABLES = ("acl_tokens",)


# -- bodies ------------------------------------------------------------------------------------


_ROLE_LINK = go_json.Fields("structs.ACLTokenRoleLink", {"ID": go_json.text, "Name": go_json.text})
_TOKEN = go_json.Fields(
    "structs..Alias",
    {
        "AccessorID": go_json.text,
        "SecretID": go_json.text,
        "Name": go_json.text,
        "Type": go_json.text,
        "Policies": go_json.texts,
        "Roles": go_json.structs(_ROLE_LINK),
        "Global": go_json.flag,
        "ExpirationTTL": go_json.duration,
        "ExpirationTime": go_json.time_ns,
    },
)
_BOOTSTRAP = go_json.Fields("structs.ACLTokenBootstrapRequest", {"BootstrapSecret": go_json.text})

# -- handlers ----------------------------------------------------------------------------------


async def bootstrap_cluster(call: ApiCall) -> Response:
    data = await call.body()
    secret = ""
    if data:
        try:
            secret = go_json.decode_body(data, _BOOTSTRAP).get("BootstrapSecret", "")
        except InvalidInputError as error:
            raise InvalidInputError(f"failed to decode request body: {error}") from error
    return answer_new(call, await bootstrap(call.services.acl, secret))


async def write_token(call: ApiCall) -> Response:
    body = go_json.decode_body(await call.body(), _TOKEN)
    in_path, accessor_id = call.path.get("accessor", ""), body.get("AccessorID", "")
    if in_path and in_path != accessor_id:
        raise InvalidInputError("ACL token accessor does not match request path")
    if accessor_id and not is_uuid(accessor_id):
        raise InvalidInputError(f"token lookup failed: {NOT_A_UUID}")
    wanted = WantedToken(
        name=body.get("Name", ""),
        type=body.get("Type", ""),
        policies=body.get("Policies"),
        roles=[
            RoleLink(link.get("ID", ""), link.get("Name", "")) for link in body.get("Roles", ())
        ],
        is_global=body.get("Global", False),
        accessor_id=accessor_id,
        secret=body.get("SecretID", ""),
        expiration_ttl_ns=body.get("ExpirationTTL", 0),
        expiration_time_ns=body.get("ExpirationTime", 0),
    )
    return answer_new(call, await put_token(call.services.acl, wanted))


def answer_new(call: ApiCall, made: NewToken) -> Response:
    shown = shown_token(made.token, made.token.roles, made.secret)
    return call.answer(shown, index=made.token.modify_index)


async def read_token(call: ApiCall) -> Response:
    accessor_id = call.path["accessor"]
    if not is_uuid(accessor_id):
        raise RefusedError(NOT_A_UUID)

    def read(snapshot: Snapshot) -> AclToken | None:
        return _with_roles(snapshot, snapshot.acl_tokens.get(accessor_id))

    return await answer_object(
        call,
        _TABLES,
        read,
        "ACL token not found",
        lambda token: shown_token(token, token.roles, secret_of(call.services.acl, token)),
        key=accessor_id,
    )


async def read_own_token(call: ApiCall) -> Response:
    if not call.services.acl_settings.enabled:
        return await answer_list(call, ("namespaces",), lambda snapshot: NO_ACCESS_CONTROL)
    secret = secret_of_request(call)
    if not secret:
        headers = {"X-Nomad-Index": "0"}
        return call.answer(ANONYMOUS_TOKEN, headers=headers, read=True)
    if is_workload(call):
        raise NotFoundError("ACL token not found")
    with call.context.snapshot() as snapshot:
        token = _with_roles(snapshot, token_of(snapshot, secret))
    if token is None and call.rights.workload is not None:
        raise NotFoundError("ACL token not found")
    if token is None:
        raise NotAllowedError("Permission denied")
    if token.is_expired(call.context.now_ns()):
        raise RefusedError("ACL token expired")
    return call.answer(shown_token(token, token.roles, secret), index=token.modify_index, read=True)


def _with_roles(snapshot: Snapshot, token: AclToken | None) -> AclToken | None:
    """Returns the token with those of its roles that still exist, under their names of now."""
    return replace(token, roles=shown_roles(snapshot, token)) if token is not None else None


async def list_tokens(call: ApiCall) -> Response:
    page, prefix = PageRequest.of(call), call.id_prefix("acl token lookup failed: ")

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        found = snapshot.acl_tokens.all(prefix)
        found.sort(key=lambda token: (token.create_index, token.accessor_id))
        chosen, headers = page.apply(found, _token_of_page, without_secret)
        return [token_stub(token, shown_roles(snapshot, token)) for token in chosen], headers

    return await answer_list(call, _TABLES, read)


def _token_of_page(token: AclToken) -> str:
    return f"{token.create_index}.{token.accessor_id}"


async def delete_token(call: ApiCall) -> Response:
    accessor_id = call.path["accessor"]
    if not is_uuid(accessor_id):
        raise InvalidInputError(f"token lookup failed: {NOT_A_UUID}")
    return call.empty(index=await delete_tokens(call.services.acl, [accessor_id]))


ENDPOINTS = [
    acl_endpoint("/v1/acl/bootstrap", put=bootstrap_cluster),
    acl_endpoint("/v1/acl/tokens", get=list_tokens),
    acl_endpoint("/v1/acl/token", put=write_token),
    endpoint("/v1/acl/token/self", get=read_own_token),
    acl_endpoint("/v1/acl/token/{accessor}", get=read_token, put=write_token, delete=delete_token),
]
