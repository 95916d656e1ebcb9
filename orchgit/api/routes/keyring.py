"""Root keys: their ids and times, never the keys; and the public halves."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from starlette.responses import Response

from orchgit.api.blocking import answer_list
from orchgit.api.call import ApiCall
from orchgit.api.errors import text_response
from orchgit.api.routing import endpoint
from orchgit.errors import InvalidInputError, NotFoundError, RefusedError
from orchgit.model.base import Model
from orchgit.model.variable import RootKey
from orchgit.state.snapshot import Snapshot

_TABLES = ("root_keys",)
_CACHED_S = 3600


class RootKeyMeta(Model):
    key_id: str
    algorithm: str
    state: str
    create_index: int
    modify_index: int
    create_time_ns: int
    publish_time_ns: int


def _meta(key: RootKey) -> RootKeyMeta:
    fields = {name: getattr(key, name) for name in RootKeyMeta.__struct_fields__}
    # Only a key that waits to become active has a time of its publication.
    return RootKeyMeta(**{**fields, "publish_time_ns": 0})


async def list_keys(call: ApiCall) -> Response:
    return await answer_list(
        call, _TABLES, lambda snapshot: [_meta(key) for key in snapshot.root_keys.all()]
    )


async def rotate(call: ApiCall) -> Response:
    if call.query.get("publish_time") not in (None, "", "0"):
        raise InvalidInputError(
            "cannot publish a root key before it is used: a new key is in use at once; leave out "
            "publish_time"
        )
    key = await call.services.keyring.rotate(call.context, call.flag("full"))
    shown = _meta(replace(key, create_index=0, modify_index=0))  # as before it was stored
    return call.answer({"Key": shown, "Index": key.modify_index}, index=key.modify_index)


async def delete_key(call: ApiCall) -> Response:
    keyring = call.services.keyring
    try:
        index = await keyring.delete(call.context, call.path["key_id"], call.flag("force"))
    except NotFoundError as error:
        raise RefusedError("root key not found") from error
    return call.empty(index=index)


async def web_keys(call: ApiCall) -> Response:
    """Returns the public keys with which a signature of this cluster can be checked."""

    def read(snapshot: Snapshot) -> tuple[Any, dict[str, str]]:
        keys = [_web_key(key) for key in snapshot.root_keys.all()]
        return {"keys": keys}, {"Cache-Control": f"max-age={_CACHED_S}"}

    return await answer_list(call, _TABLES, read)


def _web_key(key: RootKey) -> dict[str, str]:
    return {
        "use": "sig",
        "kty": "RSA",
        "kid": key.key_id,
        "alg": "RS256",
        "n": key.public_n,
        "e": key.public_e,
    }


async def openid_configuration(call: ApiCall) -> Response:
    """Tells OpenID Connect clients where the keys of workload identities are."""
    issuer = call.services.oidc_issuer
    if not issuer:
        return text_response("OIDC Discovery endpoint disabled", 404)
    return call.answer(
        {
            "issuer": issuer,
            "jwks_uri": f"{issuer}/.well-known/jwks.json",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }
    )


ENDPOINTS = [
    endpoint("/v1/operator/keyring/keys", get=list_keys),
    endpoint("/v1/operator/keyring/rotate", put=rotate),
    endpoint("/v1/operator/keyring/key/{key_id}", delete=delete_key),
    endpoint("/.well-known/jwks.json", get=web_keys),
    endpoint("/.well-known/openid-configuration", get=openid_configuration),
]
