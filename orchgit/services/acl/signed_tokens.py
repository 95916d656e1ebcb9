"""Checks JSON web tokens of identity providers: signature, issuer, audience, times. Pure."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from orchgit.clock import SECOND_NS
from orchgit.errors import OrchgitError
from orchgit.model.acl import AuthMethodConfig

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, OKPKey, RSAKey

VerificationKey: TypeAlias = "RSAKey | ECKey | OKPKey"

MAX_TOKEN_CHARACTERS = 32 * 1024
MAX_KEYS = 64
MAX_SHOWN = 200
DEFAULT_LEEWAY_S = 150
"""How long a token counts that does not say when its time begins or ends."""
DEFAULT_CLOCK_SKEW_S = 60
DEFAULT_ALGORITHMS = ("RS256",)
ALGORITHMS = (
    *("RS256", "RS384", "RS512", "ES256", "ES384", "ES512"),
    *("PS256", "PS384", "PS512", "EdDSA", "Ed25519"),
)
"""Those with a public key: none may be verified with what everybody can read."""


class SignedTokenError(OrchgitError):
    """A token cannot be trusted. The message names the reason, and nothing of the token."""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token must meet. Without issuers, or audiences, any will do.

    Leeways of 0 stand for the defaults, negative ones for none.
    """

    algorithms: Sequence[str] = DEFAULT_ALGORITHMS
    issuers: Sequence[str] = ()
    audiences: Sequence[str] = ()
    expiration_leeway_ns: int = 0
    not_before_leeway_ns: int = 0
    clock_skew_leeway_ns: int = 0

    @classmethod
    def of(cls, config: AuthMethodConfig) -> TokenRules:
        return cls(
            config.signing_algs or DEFAULT_ALGORITHMS,
            config.bound_issuer or (),
            config.bound_audiences or (),
            config.expiration_leeway_ns,
            config.not_before_leeway_ns,
            config.clock_skew_leeway_ns,
        )


def static_keys(texts: Sequence[str]) -> list[VerificationKey]:
    """Reads public keys or certificates in PEM. Raises SignedTokenError for another text."""
    return [_pem_key(text) for text in texts[:MAX_KEYS]]


def _pem_key(text: str) -> VerificationKey:
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, OKPKey, RSAKey

    for kind in (RSAKey, ECKey, OKPKey):
        try:
            return kind.import_key(text)
        except (JoseError, ValueError, TypeError):
            continue
    raise SignedTokenError(
        "unable to parse public key for JWT auth: data does not contain any valid public keys"
    )


def published_keys(document: Any) -> list[VerificationKey]:
    """Reads a JSON web key set; keys of kinds that are not known are left out."""
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, OKPKey, RSAKey

    entries = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(entries, list):
        raise SignedTokenError("cannot read the provider's key set: it has no list of keys")
    kinds: dict[str, Any] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}
    keys: list[VerificationKey] = []
    for entry in entries[:MAX_KEYS]:
        named = entry.get("kty") if isinstance(entry, dict) else None
        kind = kinds.get(named or "")
        try:
            keys += [kind.import_key(entry)] if kind is not None else []
        except (JoseError, ValueError, TypeError):
            continue
    return keys


def key_id_of(token: str) -> str:
    """Returns the key id that a token's unchecked header names; "" without one."""
    return str(_header(token).get("kid") or "")


def verified_claims(
    token: str, keys: Sequence[VerificationKey], rules: TokenRules, now_ns: int
) -> dict[str, Any]:
    """Returns the claims of a token that meets the rules. Raises SignedTokenError."""
    header = _header(token)
    claims = _claims(token, header, keys)
    unknown = [each for each in rules.algorithms if each not in ALGORITHMS]
    if unknown:
        raise _unverified(
            "invalid algorithm (alg) header parameter: unsupported signing algorithm "
            f'"{unknown[0][:MAX_SHOWN]}"'
        )
    if header["alg"] not in rules.algorithms:
        raise _unverified(
            "invalid algorithm (alg) header parameter: token signed with unexpected algorithm"
        )
    _check_times(claims, rules, now_ns // SECOND_NS)
    if rules.audiences:
        given = claims.get("aud")
        audiences = given if isinstance(given, list) else [given]
        if not any(each in rules.audiences for each in audiences if isinstance(each, str)):
            raise _unverified(
                "invalid audience (aud) claim: audience claim does not match any expected audience"
            )
    if rules.issuers:
        _check_issuer(claims, rules.issuers)
    return claims


def _check_issuer(claims: Mapping[str, Any], issuers: Sequence[str]) -> None:
    if "iss" not in claims:
        raise SignedTokenError(
            "auth method specifies BoundIssuers but the provided token does not contain issuer "
            "information"
        )
    if not isinstance(claims["iss"], str):
        raise SignedTokenError("unable to read iss property of provided token")
    if claims["iss"] not in issuers:
        raise SignedTokenError(f"invalid JWT issuer: {claims['iss'][:MAX_SHOWN]}")


def _unverified(reason: str) -> SignedTokenError:
    return SignedTokenError(f"unable to verify signature of JWT token: {reason}")


def _header(token: str) -> Mapping[str, Any]:
    from joserfc.errors import JoseError
    from joserfc.jws import extract_compact

    if len(token) > MAX_TOKEN_CHARACTERS:
        raise SignedTokenError(f"the token is longer than {MAX_TOKEN_CHARACTERS} characters")
    if token.count(".") != 2:
        raise _unverified(
            "error verifying token signature: go-jose/go-jose: compact JWS format must have three "
            "parts"
        )
    try:
        return extract_compact(token.encode()).headers()
    except (JoseError, ValueError) as error:
        raise _unverified("error verifying token signature: a part of it is malformed") from error


def _claims(
    token: str, header: Mapping[str, Any], keys: Sequence[VerificationKey]
) -> dict[str, Any]:
    """Tries the keys of the token's key id, or all where none has it or the token names none."""
    from joserfc import jwt
    from joserfc.errors import JoseError, SecurityWarning

    # EdDSA is warned of because its name does not tell the curve; the operator has chosen it.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    key_id = header.get("kid")
    named = [key for key in keys if key_id and key.kid == key_id]
    for key in named or keys:
        try:
            return jwt.decode(token, key, algorithms=ALGORITHMS).claims
        except (JoseError, ValueError):
            continue
    raise _unverified(
        "error verifying token signature: no known key successfully validated the token signature"
    )


def _check_times(claims: Mapping[str, Any], rules: TokenRules, now_s: int) -> None:
    issued, begins, ends = (_seconds(claims, name) for name in ("iat", "nbf", "exp"))
    if not (issued or begins or ends):
        raise _unverified(
            "no issued at (iat), not before (nbf), or expiration time (exp) claims in token"
        )
    ends = ends or max(issued, begins) + _leeway_s(rules.expiration_leeway_ns, DEFAULT_LEEWAY_S)
    if not begins:
        leeway_s = _leeway_s(rules.not_before_leeway_ns, DEFAULT_LEEWAY_S)
        begins = issued or ends - leeway_s
    skew_s = _leeway_s(rules.clock_skew_leeway_ns, DEFAULT_CLOCK_SKEW_S)
    if now_s + skew_s < begins:
        raise _unverified("invalid not before (nbf) claim: token not yet valid")
    if now_s - skew_s > ends:
        raise _unverified("invalid expiration time (exp) claim: token is expired")
    if issued > now_s + skew_s:
        raise _unverified("invalid issued at (iat) claim: token issued in the future")


def _leeway_s(leeway_ns: int, default_s: int) -> float:
    return max(leeway_ns / SECOND_NS, 0) if leeway_ns else default_s


def _seconds(claims: Mapping[str, Any], name: str) -> float:
    found = claims.get(name, 0)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise _unverified(f"the claim {name} is no time")
    return found
