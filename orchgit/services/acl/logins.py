"""Logs people and programs in: a token for what an identity provider says of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from orchgit.errors import InvalidInputError, NotAuthenticatedError, RefusedError
from orchgit.model.acl import AclAuthMethod, AuthMethodConfig, AuthMethodType, TokenType
from orchgit.services.acl.bindings import Bindings, bind, token_name
from orchgit.services.acl.claims import Claims, mapped
from orchgit.services.acl.context import AclContext
from orchgit.services.acl.providers import ProviderError
from orchgit.services.acl.signed_tokens import (
    SignedTokenError,
    TokenRules,
    VerificationKey,
    static_keys,
    verified_claims,
)
from orchgit.services.acl.tokens import MAX_NAME_LENGTH, NewToken, WantedToken, create_token
from orchgit.services.jobs.admission import multiple_errors


@dataclass(frozen=True, slots=True)
class Login:
    """A login by a signed token."""

    auth_method_name: str
    login_token: str = field(repr=False)


async def login(acl: AclContext, request: Login) -> NewToken:
    """Makes a token for the holder of a JSON web token.

    Raises NotAuthenticatedError for one that cannot be trusted, InvalidInputError where no binding
    rule gives its holder anything.
    """
    check_given(
        "login",
        {
            "missing auth method name": request.auth_method_name,
            "missing login token": request.login_token,
        },
    )
    method, config = known_method(acl, request.auth_method_name)
    if method.type != AuthMethodType.JWT:
        raise InvalidInputError(f"unsupported auth-method type: {method.type}")
    try:
        keys = await _keys(acl, config, request.login_token)
        rules = TokenRules.of(config)
        claims = verified_claims(request.login_token, keys, rules, acl.context.now_ns())
    except (SignedTokenError, ProviderError) as error:
        raise NotAuthenticatedError(f"unable to validate provided token: {error}") from error
    return await token_of_claims(acl, method, config, claims)


async def _keys(acl: AclContext, config: AuthMethodConfig, token: str) -> list[VerificationKey]:
    """Returns the keys that may have signed: the first of static keys, key set and provider."""
    if config.jwt_validation_pub_keys:
        return static_keys(config.jwt_validation_pub_keys)
    if config.jwks_url:
        return await acl.providers.keys(config.jwks_url, [config.jwks_ca_cert], token)
    ca_pems = config.discovery_ca_pem or ()
    endpoints = await acl.providers.endpoints(config.oidc_discovery_url, ca_pems)
    return await acl.providers.keys(endpoints.keys, ca_pems, token)


def check_given(what: str, given: Mapping[str, str]) -> None:
    """Raises InvalidInputError with all problems whose values are ""."""
    problems = [problem for problem, value in given.items() if not value]
    if problems:
        raise InvalidInputError(f"invalid {what} request: {multiple_errors(problems)}")


def known_method(acl: AclContext, name: str) -> tuple[AclAuthMethod, AuthMethodConfig]:
    with acl.context.snapshot() as snapshot:
        method = snapshot.acl_auth_methods.get(name)
    if method is None:
        raise InvalidInputError(f'auth-method "{name}" not found')
    return method, method.config or AuthMethodConfig()


async def token_of_claims(
    acl: AclContext, method: AclAuthMethod, config: AuthMethodConfig, claims: Claims
) -> NewToken:
    """Makes the token that the binding rules of the method give for verified claims."""
    known = mapped(claims, config.claim_mappings, config.list_claim_mappings)
    with acl.context.snapshot() as snapshot:
        found = bind(snapshot, snapshot.acl_binding_rules.all(method.name), known)
    if found.is_empty:
        raise InvalidInputError("no role or policy bindings matched")
    try:
        name = token_name(method.token_name_format, method.type, method.name, known)
    except InvalidInputError as error:
        raise RefusedError(f"failed to generate token name: {error}") from error
    wanted = WantedToken(
        name=name[:MAX_NAME_LENGTH],
        is_global=method.makes_global_tokens,
        expiration_ttl_ns=method.max_token_ttl_ns,
    )
    return await create_token(acl, _with_bindings(wanted, found), acl.settings)


def _with_bindings(wanted: WantedToken, found: Bindings) -> WantedToken:
    if found.management:
        return replace(wanted, type=TokenType.MANAGEMENT)
    return replace(
        wanted, type=TokenType.CLIENT, policies=found.policies or None, roles=found.roles
    )
