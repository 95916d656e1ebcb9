"""Which JSON web tokens are trusted, by value: keys are made here."""

from __future__ import annotations

import base64
import hmac
import json
import warnings
from typing import Any

import pytest
from joserfc import jwt
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OKPKey, RSAKey

from orchgit.clock import SECOND_NS
from orchgit.services.acl.signed_tokens import (
    SignedTokenError,
    TokenRules,
    published_keys,
    static_keys,
    verified_claims,
)

NOW_S = 1_800_000_000
RSA, EC, OKP = RSAKey.generate_key(2048), ECKey.generate_key("P-256"), OKPKey.generate_key()
PEMS = [key.as_pem(private=False).decode() for key in (RSA, EC, OKP)]
ALL = TokenRules(("RS256", "ES256", "EdDSA"))


def signed(key: Any = RSA, algorithm: str = "RS256", header: Any = None, **claims: Any) -> str:
    given = {"iat": NOW_S, "exp": NOW_S + 60, **claims}
    given = {name: value for name, value in given.items() if value is not None}
    warnings.filterwarnings("ignore", category=SecurityWarning)  # of EdDSA
    return jwt.encode({"alg": algorithm, **(header or {})}, given, key, algorithms=[algorithm])


def check(token: str, rules: TokenRules = ALL, at_s: float = NOW_S) -> dict[str, Any]:
    return verified_claims(token, static_keys(PEMS), rules, int(at_s * SECOND_NS))


@pytest.mark.parametrize(("key", "algorithm"), [(RSA, "RS256"), (EC, "ES256"), (OKP, "EdDSA")])
def test_token_of_a_known_key_is_trusted(key: Any, algorithm: str) -> None:
    assert check(signed(key, algorithm, sub="ada"))["sub"] == "ada"


def test_token_of_an_unknown_key_is_refused() -> None:
    with pytest.raises(SignedTokenError, match="no known key"):
        check(signed(RSAKey.generate_key(2048)))


def test_algorithm_that_is_not_named_is_refused() -> None:
    with pytest.raises(SignedTokenError, match="unexpected algorithm"):
        check(signed(EC, "ES256"), TokenRules())


def test_public_key_is_no_shared_secret() -> None:
    """Signed with what everybody knows, as a secret of HMAC."""
    head, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "HS256"}, {"iat": NOW_S, "sub": "eve"})
    )
    digest = hmac.digest(PEMS[0].encode(), f"{head}.{body}".encode(), "sha256")
    token = f"{head}.{body}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"
    for rules in (ALL, TokenRules(("HS256", "RS256"))):
        with pytest.raises(SignedTokenError, match=r"no known key|unsupported"):
            check(token, rules)


def test_unsigned_and_malformed_tokens_are_refused() -> None:
    head, body, _ = signed().split(".")
    none = base64.urlsafe_b64encode(json.dumps({"alg": "none"}).encode()).decode().rstrip("=")
    for token in (
        f"{none}.{body}.",
        f"{head}.{body}.",
        "a.b.c",
        "..",
        "zzz",
        f"{head}.{body}.AAAA",
    ):
        with pytest.raises(SignedTokenError):
            check(token, TokenRules(("none", "RS256")))


@pytest.mark.parametrize(
    ("claims", "at_s", "reason"),
    [
        ({"iat": None, "exp": None}, NOW_S, "no issued at"),
        ({}, NOW_S + 60 + 61, "expired"),
        ({"nbf": NOW_S + 61}, NOW_S, "not yet valid"),
        ({"nbf": NOW_S, "iat": NOW_S + 61}, NOW_S, "issued in the future"),
        ({"exp": None}, NOW_S + 150 + 61, "expired"),
        ({"iat": None, "exp": NOW_S + 151 + 60}, NOW_S, "not yet valid"),
        ({"exp": "soon"}, NOW_S, "is no time"),
    ],
)
def test_time_of_a_token_counts(claims: dict[str, Any], at_s: int, reason: str) -> None:
    with pytest.raises(SignedTokenError, match=reason):
        check(signed(**claims), at_s=at_s)


@pytest.mark.parametrize(
    ("claims", "at_s", "rules"),
    [
        ({}, NOW_S + 60 + 59, ALL),
        ({"exp": None}, NOW_S + 150 + 59, ALL),
        ({"exp": None, "iat": None, "nbf": NOW_S}, NOW_S, ALL),
        ({}, NOW_S + 60, TokenRules(clock_skew_leeway_ns=-1)),
        ({"exp": None}, NOW_S + 10, TokenRules(expiration_leeway_ns=10 * SECOND_NS)),
    ],
)
def test_leeways_lengthen_the_time(claims: dict[str, Any], at_s: int, rules: TokenRules) -> None:
    check(signed(**claims), rules, at_s)


def test_audience_and_issuer_are_bound() -> None:
    rules = TokenRules(issuers=["me", "you"], audiences=["nomad", "orchgit"])
    check(signed(iss="you", aud=["x", "orchgit"]), rules)
    check(signed(iss="me", aud="nomad"), rules)
    for claims in (
        {"iss": "me"},
        {"iss": "me", "aud": "x"},
        {"aud": "nomad"},
        {"iss": 1, "aud": "x"},
    ):
        with pytest.raises(SignedTokenError, match=r"audience|issuer"):
            check(signed(**claims), rules)


def test_key_set_is_searched_by_key_id_and_unknown_kinds_are_passed_over() -> None:
    keys = [RSAKey.generate_key(2048, {"kid": kid}) for kid in ("one", "two")]
    document = {"keys": [{"kty": "weird"}, 7, *(key.as_dict(private=False) for key in keys)]}
    found = published_keys(document)
    assert [key.kid for key in found] == ["one", "two"]
    token = signed(keys[1], header={"kid": "two"})
    assert verified_claims(token, found, TokenRules(), NOW_S * SECOND_NS)
    wrong = signed(keys[0], header={"kid": "two"})
    with pytest.raises(SignedTokenError, match="no known key"):
        verified_claims(wrong, found, TokenRules(), NOW_S * SECOND_NS)


@pytest.mark.parametrize("text", ["nonsense", "", "-----BEGIN PUBLIC KEY-----\nAA\n"])
def test_text_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(SignedTokenError, match="valid public keys"):
        static_keys([text])
