"""Logging in through a browser: the real API, providers on loopback."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from orchgit.services.acl.settings import AclSettings
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcProvider, oidc_provider
from tests.support.server_rig import ServerRig, server_rig

REDIRECT = "http://127.0.0.1:4649/oidc/callback"
NONCE = "a nonce of the client"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    directory = tmp_path_factory.mktemp("oidc")
    with server_rig(directory, with_agent=False, acl=AclSettings(enabled=True)) as rig:
        rig.http.headers["X-Nomad-Token"] = rig.http.post("/v1/acl/bootstrap").json()["SecretID"]
        for name in ("dev", "ops"):
            rules = {"Name": name, "Rules": 'node { policy = "read" }'}
            assert rig.http.put(f"/v1/acl/policy/{name}", json=rules).status_code == 200
        yield rig


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    with oidc_provider() as provider:
        yield provider


def store_method(rig: ServerRig, issuer: str, name: str = "sso", **config: Any) -> None:
    body = {
        "Name": name,
        "Type": "OIDC",
        "TokenLocality": "local",
        "MaxTokenTTL": "1h",
        "TokenNameFormat": "${auth_method_name}-${value.email}",
        "Config": {
            "OIDCDiscoveryURL": issuer,
            "OIDCClientID": CLIENT_ID,
            "OIDCClientSecret": CLIENT_SECRET,
            "OIDCEnablePKCE": True,
            "AllowedRedirectURIs": [REDIRECT],
            "ClaimMappings": {"email": "email"},
            "ListClaimMappings": {"groups": "groups"},
            **config,
        },
    }
    answer = rig.http.post("/v1/acl/auth-method", json=body)
    assert answer.status_code == 200, answer.text
    for rule in rig.http.get("/v1/acl/binding-rules").json():
        rig.http.delete(f"/v1/acl/binding-rule/{rule['ID']}")
    rule = {"AuthMethod": name, "BindType": "policy", "BindName": "dev"}
    assert rig.http.post("/v1/acl/binding-rule", json=rule).status_code == 200


def url_of(rig: ServerRig, name: str = "sso", redirect: str = REDIRECT) -> httpx.Response:
    body = {"AuthMethodName": name, "RedirectURI": redirect, "ClientNonce": NONCE}
    return rig.http.post("/v1/acl/oidc/auth-url", json=body, headers={"X-Nomad-Token": ""})


def complete(rig: ServerRig, state: str, code: str, **other: str) -> httpx.Response:
    body = {
        "AuthMethodName": "sso",
        "RedirectURI": REDIRECT,
        "ClientNonce": NONCE,
        "State": state,
        "Code": code,
        **other,
    }
    return rig.http.post("/v1/acl/oidc/complete-auth", json=body, headers={"X-Nomad-Token": ""})


def authorized(rig: ServerRig, provider: OidcProvider) -> tuple[str, str]:
    answer = url_of(rig)
    assert answer.status_code == 200, answer.text
    return provider.authorize(answer.json()["AuthURL"])


def test_person_gets_a_token_with_the_bound_policies(
    rig: ServerRig, provider: OidcProvider
) -> None:
    store_method(rig, provider.issuer)
    rule = {
        "AuthMethod": "sso",
        "BindType": "policy",
        "BindName": "ops",
        "Selector": '"ops" in list.groups',
    }
    assert rig.http.post("/v1/acl/binding-rule", json=rule).status_code == 200
    provider.userinfo = {"sub": "ada", "groups": ["ops", "all"]}
    answer = complete(rig, *authorized(rig, provider))
    assert answer.status_code == 200, (answer.text, provider.refusals)
    token = answer.json()
    assert (token["Name"], token["Type"]) == ("sso-ada@example.com", "client")
    assert sorted(token["Policies"]) == ["dev", "ops"]
    assert token["ExpirationTTL"] == "1h0m0s"
    own = rig.http.get("/v1/acl/token/self", headers={"X-Nomad-Token": token["SecretID"]})
    assert own.json()["AccessorID"] == token["AccessorID"]


def test_state_serves_only_the_login_that_it_was_made_for(
    rig: ServerRig, provider: OidcProvider
) -> None:
    store_method(rig, provider.issuer)
    state, code = authorized(rig, provider)
    other = {"ClientNonce": "another", "RedirectURI": "http://127.0.0.1:1/oidc/callback"}
    for name, value in other.items():
        answer = complete(rig, state, code, **{name: value})
        assert (answer.status_code, "invalid state" in answer.text) == (401, True), name
    assert complete(rig, state[:-2] + "AA", code).status_code == 401
    assert complete(rig, "", code).status_code == 400
    assert complete(rig, state, code).status_code == 200
    assert complete(rig, state, code).status_code == 401  # the code was used


def test_foreign_redirect_is_refused_and_any_port_of_loopback_is_taken(
    rig: ServerRig, provider: OidcProvider
) -> None:
    store_method(rig, provider.issuer)
    refused = url_of(rig, redirect="https://evil.example/oidc/callback")
    assert (refused.status_code, "unauthorized redirect_uri" in refused.text) == (400, True)
    assert url_of(rig, redirect="http://127.0.0.1:9999/oidc/callback").status_code == 200


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({"nonce": "another"}, "invalid nonce"),
        ({"aud": "another client"}, "audience"),
        ({"iss": "https://evil.example"}, "issuer"),
        ({"exp": 1, "iat": 1}, "expired"),
        ({"sub": "eve"}, "another subject"),
    ],
)
def test_lying_id_token_gives_no_token(
    rig: ServerRig, provider: OidcProvider, lie: dict[str, Any], reason: str
) -> None:
    store_method(rig, provider.issuer)
    provider.lies = lie
    answer = complete(rig, *authorized(rig, provider))
    assert (answer.status_code, reason in answer.text) == (401, True), answer.text


def test_token_signed_by_another_key_is_refused(rig: ServerRig, provider: OidcProvider) -> None:
    store_method(rig, provider.issuer)
    provider.signing_key = RSAKey.generate_key(2048, {"kid": "one"})
    answer = complete(rig, *authorized(rig, provider))
    assert (answer.status_code, "no known key" in answer.text) == (401, True), answer.text


def test_answer_of_a_provider_has_a_limit_and_must_be_about_itself(
    rig: ServerRig, provider: OidcProvider
) -> None:
    store_method(rig, provider.issuer)
    path = "/.well-known/openid-configuration"
    provider.answers[path] = b'{"issuer": "' + b"x" * (2 << 20) + b'"}'
    assert "larger than" in url_of(rig).text
    provider.answers[path] = b'{"issuer": "https://evil.example"}'
    answer = url_of(rig)
    assert (answer.status_code, "issuer did not match" in answer.text) == (500, True)
    provider.answers[path] = b"<html>"
    assert "no JSON" in url_of(rig).text


def test_assertion_signed_by_a_key_replaces_the_client_secret(
    rig: ServerRig, provider: OidcProvider
) -> None:
    key = RSAKey.generate_key(2048)
    pem = key.as_pem(private=True).decode()
    assertion = {"KeySource": "private_key", "PrivateKey": {"PemKey": pem, "KeyID": "k1"}}
    store_method(rig, provider.issuer, OIDCClientAssertion=assertion)
    shown = rig.http.get("/v1/acl/auth-method/sso").text
    assert ("PRIVATE KEY" in shown, CLIENT_SECRET in shown) == (False, False)
    assert complete(rig, *authorized(rig, provider)).status_code == 200
    found = jwt.decode(provider.assertions[-1], key)
    assert found.header["kid"] == "k1"
    assert (found.claims["iss"], found.claims["sub"]) == (CLIENT_ID, CLIENT_ID)
    store_method(rig, provider.issuer, OIDCClientAssertion={"KeySource": "nomad"})
    assert complete(rig, *authorized(rig, provider)).status_code == 200


def test_secret_of_a_method_is_nowhere_on_disk(rig: ServerRig, provider: OidcProvider) -> None:
    store_method(rig, provider.issuer)
    files = [file for file in rig.data_dir.rglob("*") if file.is_file()]
    assert not [file for file in files if CLIENT_SECRET.encode() in file.read_bytes()]


@pytest.mark.long
def test_login_at_an_independent_provider(rig: ServerRig) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries that the provider is made of
        from oidc_provider_mock import User, run_server_in_thread

        user = User(sub="grace", claims={"email": "grace@example.com", "groups": ["ops"]})
        with run_server_in_thread(user_claims=[user]) as server:
            issuer = f"http://localhost:{server.server_port}"
            store_method(rig, issuer, OIDCScopes=["email"])
            url = url_of(rig).json()["AuthURL"]
            page = httpx.post(url, data={"sub": "grace"}, trust_env=False)
            query = parse_qs(urlsplit(page.headers["location"]).query)
            answer = complete(rig, query["state"][0], query["code"][0])
    assert answer.status_code == 200, answer.text
    assert answer.json()["Name"] == "sso-grace@example.com"
