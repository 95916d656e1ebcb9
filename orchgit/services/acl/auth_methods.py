"""Stores and deletes auth methods; their secrets are sealed and never shown."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from orchgit.durations import to_text
from orchgit.model.acl import (
    GLOBAL,
    LOCAL,
    AclAuthMethod,
    AuthMethodConfig,
    AuthMethodSecrets,
    AuthMethodType,
    ClientAssertion,
    SealedSecret,
    contents_digest,
)
from orchgit.replication.commands.acl_logins import DeleteAclAuthMethods, PutAclAuthMethod
from orchgit.services.acl.context import AclContext
from orchgit.services.acl.rules import check, name_problems
from orchgit.services.jobs.admission import multiple_errors

REDACTED = "redacted"
"""What stands in place of a secret in answers; sent back, it keeps the stored secret."""
DEFAULT_NAME_FORMAT = "${auth_method_type}-${auth_method_name}"
MAX_NAME_FORMAT_LENGTH = 1024
MAX_CONFIG_BYTES = 256 * 1024
KEY_SOURCES = ("nomad", "private_key", "client_secret")
_SECRETS = msgspec.msgpack.Decoder(AuthMethodSecrets)


async def put_auth_method(acl: AclContext, wanted: AclAuthMethod) -> AclAuthMethod:
    """Creates a method, or changes the one of its name.

    `wanted.config` may hold secrets in plain; the stored method has them sealed. A change keeps
    what `wanted` leaves unset, but for `default`; a config replaces the whole config.
    """
    with acl.context.snapshot() as snapshot:
        known = snapshot.acl_auth_methods.get(wanted.name)
    method = wanted if known is None else _merged(wanted, known)
    if not method.token_name_format:
        method = replace(method, token_name_format=DEFAULT_NAME_FORMAT)
    secrets = _secrets_of(wanted.config, secrets_of(acl, known) if known else AuthMethodSecrets())
    check("auth method 0", _problems(acl, method, secrets))
    assert method.config is not None
    method = replace(
        method,
        config=_redacted(method.config, secrets),
        secrets=await _sealed(acl, method, secrets),
    )
    method.digest = _digest(method)
    command = PutAclAuthMethod(
        now_ns=acl.context.now_ns(),
        method=method,
        expected_modify_index=known.modify_index if known else 0,
    )
    stored = (await acl.context.propose(command)).result
    assert isinstance(stored, AclAuthMethod)
    return stored


async def delete_auth_method(acl: AclContext, name: str) -> int:
    """Raises RefusedError for an unknown method. Its binding rules stay."""
    command = DeleteAclAuthMethods(now_ns=acl.context.now_ns(), names=[name])
    return (await acl.context.propose(command)).index


def secrets_of(acl: AclContext, method: AclAuthMethod) -> AuthMethodSecrets:
    """Returns the method's secrets in plain, for a login and for nothing else."""
    if method.secrets is None:
        return AuthMethodSecrets()
    return _SECRETS.decode(acl.unsealed(method.sealed_for, method.secrets))


# -- secrets -----------------------------------------------------------------------------------


def _secrets_of(config: AuthMethodConfig | None, known: AuthMethodSecrets) -> AuthMethodSecrets:
    """Returns the secrets in the config; a redacted one, and without a config all, stay as they are
    known."""
    if config is None:
        return known
    assertion = config.oidc_client_assertion
    key = assertion.private_key if assertion is not None else None
    pem_key = key.pem_key if key is not None else ""
    return AuthMethodSecrets(
        config.oidc_client_secret
        if config.oidc_client_secret != REDACTED
        else known.oidc_client_secret,
        pem_key if pem_key != REDACTED else known.assertion_pem_key,
    )


def _redacted(config: AuthMethodConfig, secrets: AuthMethodSecrets) -> AuthMethodConfig:
    """Returns the config as it is stored and shown."""
    assertion = config.oidc_client_assertion
    if assertion is not None and assertion.private_key is not None:
        shown = REDACTED if secrets.assertion_pem_key else ""
        key = replace(assertion.private_key, pem_key=shown)
        assertion = replace(assertion, private_key=key)
    return replace(
        config,
        oidc_client_secret=REDACTED if secrets.oidc_client_secret else "",
        oidc_client_assertion=assertion,
    )


async def _sealed(
    acl: AclContext, method: AclAuthMethod, secrets: AuthMethodSecrets
) -> SealedSecret | None:
    if secrets == AuthMethodSecrets():
        return None
    return await acl.sealed(method.sealed_for, msgspec.msgpack.encode(secrets))


# -- rules -------------------------------------------------------------------------------------


def _merged(wanted: AclAuthMethod, known: AclAuthMethod) -> AclAuthMethod:
    return replace(
        wanted,
        type=wanted.type or known.type,
        token_locality=wanted.token_locality or known.token_locality,
        token_name_format=wanted.token_name_format or known.token_name_format,
        max_token_ttl_ns=wanted.max_token_ttl_ns or known.max_token_ttl_ns,
        config=wanted.config or known.config,
    )


def _problems(acl: AclContext, method: AclAuthMethod, secrets: AuthMethodSecrets) -> list[str]:
    problems = name_problems(method.name)
    if method.token_locality not in (LOCAL, GLOBAL):
        problems.append(f"invalid token locality '{method.token_locality}'")
    if method.type not in tuple(AuthMethodType):
        problems.append(f"invalid token type '{method.type}'")
    shortest = acl.settings.token_min_expiration_ttl_ns
    longest = acl.settings.token_max_expiration_ttl_ns
    if not shortest <= method.max_token_ttl_ns <= longest:
        problems.append(
            f"invalid MaxTokenTTL value '{to_text(method.max_token_ttl_ns)}' (should be between "
            f"{to_text(shortest)} and {to_text(longest)})"
        )
    if len(method.token_name_format) > MAX_NAME_FORMAT_LENGTH:
        problems.append(f"token name format longer than {MAX_NAME_FORMAT_LENGTH}")
    found = _config_problems(method, secrets)
    if found:
        text = found[0] if len(found) == 1 else multiple_errors(found)
        problems.append(f"invalid config: {text}")
    return problems


def _config_problems(method: AclAuthMethod, secrets: AuthMethodSecrets) -> list[str]:
    config = method.config
    if config is None:
        return ["missing auth method Config"]
    problems = []
    if method.type == AuthMethodType.OIDC:
        if not config.oidc_discovery_url:
            problems.append("missing OIDCDiscoveryURL")
        if not config.oidc_client_id:
            problems.append("missing OIDCClientID")
        if config.oidc_client_assertion is not None:
            problems += _assertion_problems(config.oidc_client_assertion, secrets)
    elif method.type == AuthMethodType.JWT:
        sources = (config.oidc_discovery_url, config.jwks_url, config.jwt_validation_pub_keys)
        if not any(sources):
            problems.append(
                "JWT auth method requires either OIDCDiscoveryURL, or JWKS URL, or "
                "JWTValidationPubKeys set"
            )
    if len(msgspec.json.encode(config)) > MAX_CONFIG_BYTES:
        problems.append(f"the config is larger than {MAX_CONFIG_BYTES} bytes")
    return problems


def _assertion_problems(assertion: ClientAssertion, secrets: AuthMethodSecrets) -> list[str]:
    key = assertion.private_key
    problems = []
    if assertion.key_source not in KEY_SOURCES:
        problems.append(
            f"invalid client assertion config: invalid KeySource '{assertion.key_source}' "
            f"(should be one of {', '.join(KEY_SOURCES)})"
        )
    elif assertion.key_source == "private_key":
        if key is not None and (key.pem_key_file or key.pem_cert_file):
            problems.append(
                "invalid client assertion config: files of a server are not read; give PemKey "
                "and PemCert"
            )
        elif not secrets.assertion_pem_key:
            problems.append("invalid client assertion config: missing PrivateKey.PemKey")
        elif key is None or bool(key.key_id) == bool(key.pem_cert):
            problems.append(
                "invalid client assertion config: PrivateKey needs either KeyID or PemCert"
            )
    elif assertion.key_source == "client_secret" and not secrets.oidc_client_secret:
        problems.append("invalid client assertion config: missing OIDCClientSecret")
    return problems


def _digest(method: AclAuthMethod) -> str:
    """Says nothing of the secrets: everybody may list auth methods, and guess."""
    config = method.config or AuthMethodConfig()
    flags = (config.oidc_enable_pkce, config.oidc_disable_user_info, config.verbose_logging)
    leeways_ns = (
        config.expiration_leeway_ns,
        config.not_before_leeway_ns,
        config.clock_skew_leeway_ns,
    )
    lists = (
        *(config.jwt_validation_pub_keys, config.oidc_scopes, config.bound_audiences),
        *(config.bound_issuer, config.allowed_redirect_uris, config.discovery_ca_pem),
        config.signing_algs,
    )
    maps = (config.claim_mappings, config.list_claim_mappings)
    assertion = config.oidc_client_assertion
    return contents_digest(
        (
            *(method.name, method.type, method.token_locality, method.token_name_format),
            *(to_text(method.max_token_ttl_ns), _go_bool(method.default)),
            *(config.jwks_url, config.jwks_ca_cert, config.oidc_discovery_url),
            *(config.oidc_client_id, config.oidc_client_secret),
            msgspec.json.encode(assertion, order="sorted") if assertion is not None else b"",
            *map(_go_bool, flags),
            *map(to_text, leeways_ns),
            *(text for each in lists for text in each or ()),
            *(text for each in maps for pair in sorted((each or {}).items()) for text in pair),
        )
    )


def _go_bool(value: bool) -> str:
    return "true" if value else "false"
