"""Logs people in through their browser, by OpenID Connect: the authorization code flow with PKCE.

The server remembers nothing between the two requests: what the second one must match travels in the
`state` parameter, sealed with the root keys, so that any server can answer it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from orchgit.clock import SECOND_NS
from orchgit.errors import InvalidInputError, NotAuthenticatedError, OrchgitError, RefusedError
from orchgit.host_port import is_loopback, join_host_port
from orchgit.model.acl import AclAuthMethod, AuthMethodConfig, AuthMethodSecrets, SealedSecret
from orchgit.services.acl.auth_methods import secrets_of
from orchgit.services.acl.client_assertions import client_assertion
from orchgit.services.acl.context import AclContext
from orchgit.services.acl.logins import check_given, known_method, token_of_claims
from orchgit.services.acl.providers import Endpoints, ProviderError
from orchgit.services.acl.signed_tokens import SignedTokenError, TokenRules, verified_claims
from orchgit.services.acl.tokens import NewToken

STATE_LIFETIME_NS = 10 * 60 * SECOND_NS
"""How long a person may take to log in at the provider."""
MAX_PARAMETER_LENGTH = 8192
_STATE_OWNER = "acl:oidc-state"
_SCOPE = "openid"
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class _State(msgspec.Struct):
    """What the completion of a login must match."""

    method: str
    redirect_uri: str
    client_nonce: str
    verifier: str
    expires_ns: int


_DECODE_STATE = msgspec.msgpack.Decoder(_State).decode


@dataclass(frozen=True, slots=True)
class AuthUrlRequest:
    """`client_nonce` is known to the client alone until the login is complete."""

    auth_method_name: str
    redirect_uri: str
    client_nonce: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class CompleteAuthRequest:
    auth_method_name: str
    redirect_uri: str
    client_nonce: str = field(repr=False)
    state: str = field(repr=False)
    code: str = field(repr=False)


async def auth_url(acl: AclContext, request: AuthUrlRequest) -> str:
    """Returns where the person's browser goes to log in."""
    check_given(
        "OIDC auth-url",
        {
            "missing auth method name": request.auth_method_name,
            "missing client nonce": request.client_nonce,
            "missing redirect URI": request.redirect_uri,
        },
    )
    if max(len(request.redirect_uri), len(request.client_nonce)) > MAX_PARAMETER_LENGTH:
        raise InvalidInputError("invalid OIDC auth-url request: a parameter is too long")
    method, config = known_method(acl, request.auth_method_name)
    endpoints = await _provider(acl, config)
    _check_redirect(config, request.redirect_uri)
    verifier = secrets.token_urlsafe(64) if config.oidc_enable_pkce else ""
    state = _State(
        method=method.name,
        redirect_uri=request.redirect_uri,
        client_nonce=request.client_nonce,
        verifier=verifier,
        expires_ns=acl.context.now_ns() + STATE_LIFETIME_NS,
    )
    sealed = await acl.sealed(_STATE_OWNER, msgspec.msgpack.encode(state))
    scopes = dict.fromkeys((_SCOPE, *(config.oidc_scopes or ())))
    parameters = {
        "client_id": config.oidc_client_id,
        "nonce": request.client_nonce,
        "redirect_uri": request.redirect_uri,
        "response_type": "code",
        "scope": " ".join(scopes),
        "state": _base64(msgspec.msgpack.encode(sealed)),
    }
    if verifier:
        parameters["code_challenge"] = _base64(hashlib.sha256(verifier.encode()).digest())
        parameters["code_challenge_method"] = "S256"
    separator = "&" if "?" in endpoints.authorization else "?"
    return f"{endpoints.authorization}{separator}{urlencode(parameters)}"


async def complete_auth(acl: AclContext, request: CompleteAuthRequest) -> NewToken:
    """Makes the token of the person for whom the provider gave the code.

    Raises NotAuthenticatedError where a part does not match the request for the URL, or the
    provider's answer cannot be trusted.
    """
    check_given(
        "OIDC complete-auth",
        {
            "missing auth method name": request.auth_method_name,
            "missing client nonce": request.client_nonce,
            "missing state": request.state,
            "missing code": request.code,
            "missing redirect URI": request.redirect_uri,
        },
    )
    method, config = known_method(acl, request.auth_method_name)
    endpoints = await _provider(acl, config)
    state = _opened_state(acl, request, method)
    try:
        claims = await _claims(acl, method, endpoints, request, state)
    except (ProviderError, SignedTokenError) as error:
        raise NotAuthenticatedError(f"failed to exchange token with provider: {error}") from error
    return await token_of_claims(acl, method, config, claims)


# -- the provider ------------------------------------------------------------------------------


async def _provider(acl: AclContext, config: AuthMethodConfig) -> Endpoints:
    if not config.oidc_client_id:
        raise RefusedError(
            "failed to generate OIDC provider: NewConfig: invalid provider config: "
            "Config.Validate: client ID is empty: invalid parameter"
        )
    try:
        return await acl.providers.endpoints(
            config.oidc_discovery_url, config.discovery_ca_pem or ()
        )
    except ProviderError as error:
        raise RefusedError(
            f"failed to generate OIDC provider: NewProvider: unable to create provider: {error}"
        ) from error


async def _claims(
    acl: AclContext,
    method: AclAuthMethod,
    endpoints: Endpoints,
    request: CompleteAuthRequest,
    state: _State,
) -> dict[str, Any]:
    """Trades the code for the claims of the person, those of the userinfo endpoint among them."""
    config = method.config or AuthMethodConfig()
    ca_pems = config.discovery_ca_pem or ()
    form = {
        "grant_type": "authorization_code",
        "code": request.code,
        "redirect_uri": state.redirect_uri,
        "client_id": config.oidc_client_id,
    }
    if state.verifier:
        form["code_verifier"] = state.verifier
    known = secrets_of(acl, method)
    basic = await _authenticate_client(acl, config, known, endpoints, form)
    answer = await acl.providers.exchange(endpoints.token, ca_pems, form, basic)
    id_token = answer.get("id_token")
    if not isinstance(id_token, str):
        raise ProviderError("the provider's answer has no id_token")
    keys = await acl.providers.keys(endpoints.keys, ca_pems, id_token)
    rules = TokenRules(
        algorithms=TokenRules.of(config).algorithms,
        issuers=(endpoints.issuer,),
        audiences=config.bound_audiences or (config.oidc_client_id,),
    )
    claims = verified_claims(id_token, keys, rules, acl.context.now_ns())
    if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), state.client_nonce.encode()):
        raise SignedTokenError("invalid nonce: the token is not for this login")
    access_token = answer.get("access_token")
    if endpoints.userinfo and not config.oidc_disable_user_info and isinstance(access_token, str):
        told = await acl.providers.userinfo(endpoints.userinfo, ca_pems, access_token)
        if told.get("sub") != claims.get("sub"):
            raise SignedTokenError("the userinfo endpoint tells of another subject")
        claims = {**told, **claims}
    return claims


async def _authenticate_client(
    acl: AclContext,
    config: AuthMethodConfig,
    known: AuthMethodSecrets,
    endpoints: Endpoints,
    form: dict[str, str],
) -> tuple[str, str] | None:
    """Adds to the form what proves who asks; returns the user and password to send instead."""
    if config.oidc_client_assertion is not None:
        form["client_assertion_type"] = _ASSERTION_TYPE
        form["client_assertion"] = await client_assertion(acl, config, known)
        return None
    if not known.oidc_client_secret:
        return None
    methods = endpoints.token_auth_methods
    if methods and "client_secret_basic" not in methods and "client_secret_post" in methods:
        form["client_secret"] = known.oidc_client_secret
        return None
    return config.oidc_client_id, known.oidc_client_secret


def _check_redirect(config: AuthMethodConfig, redirect_uri: str) -> None:
    """Addresses of the person's own machine match at any port (RFC 8252)."""
    allowed = config.allowed_redirect_uris or ()
    if redirect_uri in allowed or _without_port(redirect_uri) in map(_without_port, allowed):
        return
    raise InvalidInputError(
        f"failed to generate auth URL: redirect URI {redirect_uri!r}: unauthorized redirect_uri; "
        "add it to AllowedRedirectURIs of the auth method"
    )


def _without_port(uri: str) -> str:
    try:
        parts = urlsplit(uri)
        host = parts.hostname or ""
    except ValueError:
        return uri
    if not is_loopback(join_host_port(host, 0)):
        return uri
    return f"{parts.scheme}://{host}{parts.path}?{parts.query}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


# -- state -------------------------------------------------------------------------------------


def _opened_state(acl: AclContext, request: CompleteAuthRequest, method: AclAuthMethod) -> _State:
    """Raises NotAuthenticatedError unless the state was made for this very login."""
    refused = NotAuthenticatedError("failed to exchange token with provider: invalid state")
    if len(request.state) > 4 * MAX_PARAMETER_LENGTH:
        raise refused
    try:
        padded = request.state + "=" * (-len(request.state) % 4)
        data = base64.b64decode(padded.encode(), altchars=b"-_", validate=True)
        sealed = msgspec.msgpack.decode(data, type=SealedSecret)
        state = _DECODE_STATE(acl.unsealed(_STATE_OWNER, sealed))
    except (binascii.Error, msgspec.MsgspecError, OrchgitError, UnicodeError) as error:
        raise refused from error
    matches = (
        (state.method, method.name),
        (state.redirect_uri, request.redirect_uri),
        (state.client_nonce, request.client_nonce),
    )
    if not all(hmac.compare_digest(mine.encode(), theirs.encode()) for mine, theirs in matches):
        raise refused
    if state.expires_ns <= acl.context.now_ns():
        raise NotAuthenticatedError(
            "failed to exchange token with provider: the login took longer than 10 minutes; "
            "begin it again"
        )
    return state
