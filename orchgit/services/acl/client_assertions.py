"""Signed texts by which an OIDC provider knows this cluster, in place of a client secret."""

from __future__ import annotations

import base64
import hashlib
import ssl
from typing import Any

import msgspec

from orchgit.clock import SECOND_NS
from orchgit.model.acl import AuthMethodConfig, AuthMethodSecrets, ClientAssertion
from orchgit.services.acl.context import AclContext
from orchgit.services.acl.signed_tokens import SignedTokenError

_LIFETIME_S = 300
_DEFAULT_ALGORITHMS = {"client_secret": "HS256"}


async def client_assertion(
    acl: AclContext, config: AuthMethodConfig, known: AuthMethodSecrets
) -> str:
    """Returns the assertion of an auth method that has one. Raises SignedTokenError for a key or an
    algorithm that cannot be used."""
    assertion = config.oidc_client_assertion or ClientAssertion()
    now_s = acl.context.now_ns() // SECOND_NS
    claims = {
        "iss": config.oidc_client_id,
        "sub": config.oidc_client_id,
        "aud": assertion.audience or [config.oidc_discovery_url],
        "jti": acl.context.ids.new(),
        "iat": now_s,
        "nbf": now_s,
        "exp": now_s + _LIFETIME_S,
    }
    headers: dict[str, Any] = dict(assertion.extra_headers or {})
    if assertion.key_source == "nomad":
        return await _signed_by_root_key(acl, headers, claims)
    algorithm = assertion.key_algorithm or _DEFAULT_ALGORITHMS.get(assertion.key_source, "RS256")
    headers = {**headers, **_key_headers(assertion), "alg": algorithm}
    is_shared = assertion.key_source == "client_secret"
    if is_shared != algorithm.startswith("HS"):
        raise SignedTokenError(f"cannot sign a client assertion with KeyAlgorithm {algorithm!r}")
    secret = known.oidc_client_secret if is_shared else known.assertion_pem_key
    return _signed(headers, claims, secret)


async def _signed_by_root_key(
    acl: AclContext, headers: dict[str, Any], claims: dict[str, Any]
) -> str:
    key = await acl.keyring.active_key(acl.context)
    headers = {**headers, "alg": "RS256", "typ": "JWT", "kid": key.key_id}
    text = f"{_part(msgspec.json.encode(headers))}.{_part(msgspec.json.encode(claims))}"
    return f"{text}.{_part(acl.keyring.sign(key, text.encode()))}"


def _key_headers(assertion: ClientAssertion) -> dict[str, str]:
    key = assertion.private_key
    if key is None:
        return {}
    if key.key_id:
        return {key.key_id_header or "kid": key.key_id}
    try:
        certificate = ssl.PEM_cert_to_DER_cert(key.pem_cert.strip())
    except ValueError as error:
        raise SignedTokenError("cannot read PemCert of the client assertion") from error
    if key.key_id_header == "x5t":
        return {"x5t": _part(hashlib.sha1(certificate, usedforsecurity=False).digest())}
    return {"x5t#S256": _part(hashlib.sha256(certificate).digest())}


def _signed(headers: dict[str, Any], claims: dict[str, Any], secret: str) -> str:
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

    algorithm = headers["alg"]
    kinds: dict[str, Any] = {"HS": OctKey, "RS": RSAKey, "PS": RSAKey, "ES": ECKey, "Ed": OKPKey}
    kind = kinds.get(algorithm[:2], RSAKey)
    try:
        key = kind.import_key(secret)
        return jwt.encode(headers, claims, key, algorithms=[algorithm])
    except (JoseError, ValueError, TypeError):
        # Not chained: the library's errors may show a part of the key.
        raise SignedTokenError("cannot sign the client assertion with its key") from None


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
