"""Logging in with a signed token: the real API, keys made here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from orchgit.services.acl.settings import AclSettings
from tests.support.server_rig import ServerRig, server_rig

KEY = RSAKey.generate_key(2048)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    directory = tmp_path_factory.mktemp("login")
    with server_rig(directory, with_agent=False, acl=AclSettings(enabled=True)) as rig:
        rig.http.headers["X-Nomad-Token"] = rig.http.post("/v1/acl/bootstrap").json()["SecretID"]
        for name in ("dev", "ops", "eng-team"):
            rules = {"Name": name, "Rules": 'node { policy = "read" }'}
            assert rig.http.put(f"/v1/acl/policy/{name}", json=rules).status_code == 200
        role = {"Name": "admins", "Policies": [{"Name": "ops"}]}
        assert rig.http.put("/v1/acl/role", json=role).status_code == 200
        yield rig


@pytest.fixture
def rig(server: ServerRig) -> ServerRig:
    """The server with a method `jwt` that gives nothing."""
    store(
        server,
        {
            "Name": "jwt",
            "Type": "JWT",
            "TokenLocality": "global",
            "MaxTokenTTL": "30m",
            "TokenNameFormat": "${auth_method_type}-${auth_method_name}",
            "Config": {
                "JWTValidationPubKeys": [KEY.as_pem(private=False).decode()],
                "BoundIssuer": ["me"],
                "BoundAudiences": ["nomad"],
                "ClaimMappings": {"user": "user", "dept": "dept"},
                "ListClaimMappings": {"groups": "groups"},
            },
        },
    )
    for rule in server.http.get("/v1/acl/binding-rules").json():
        server.http.delete(f"/v1/acl/binding-rule/{rule['ID']}")
    return server


def store(rig: ServerRig, method: dict[str, Any]) -> None:
    answer = rig.http.post("/v1/acl/auth-method", json=method)
    assert answer.status_code == 200, answer.text


def bind(rig: ServerRig, kind: str, name: str, selector: str = "") -> None:
    rule = {"AuthMethod": "jwt", "BindType": kind, "BindName": name, "Selector": selector}
    answer = rig.http.post("/v1/acl/binding-rule", json=rule)
    assert answer.status_code == 200, answer.text


def token_of(**claims: Any) -> str:
    now_s = int(time.time())
    given = {"iss": "me", "aud": "nomad", "iat": now_s, "exp": now_s + 60, "user": "ada", **claims}
    return jwt.encode({"alg": "RS256"}, given, KEY)


def log_in(rig: ServerRig, token: str, method: str = "jwt") -> httpx.Response:
    body = {"AuthMethodName": method, "LoginToken": token}
    return rig.http.post("/v1/acl/login", json=body, headers={"X-Nomad-Token": ""})


def test_rules_that_match_give_policies_and_roles(rig: ServerRig) -> None:
    bind(rig, "policy", "dev", 'value.user == "ada"')
    bind(rig, "policy", "ops", 'value.user == "eve"')
    bind(rig, "policy", "${value.dept}-team", 'value.nosuch != "x"')
    bind(rig, "policy", "nosuch")
    bind(rig, "role", "admins", '"ops" in list.groups')
    answer = log_in(rig, token_of(dept="eng", groups=["ops"]))
    assert answer.status_code == 200, answer.text
    made = answer.json()
    assert sorted(made["Policies"]) == ["dev", "eng-team"]
    assert [role["Name"] for role in made["Roles"]] == ["admins"]
    assert (made["Name"], made["Type"], made["Global"]) == ("JWT-jwt", "client", True)
    assert made["ExpirationTTL"] == "30m0s"
    headers = {"X-Nomad-Token": made["SecretID"]}
    assert rig.http.get("/v1/nodes", headers=headers).status_code == 200
    assert rig.http.get("/v1/jobs", headers=headers).status_code == 403


def test_roles_alone_leave_an_empty_list_of_policies(rig: ServerRig) -> None:
    bind(rig, "role", "admins")
    assert log_in(rig, token_of()).json()["Policies"] == []


def test_management_wins_over_every_other_rule(rig: ServerRig) -> None:
    bind(rig, "policy", "dev")
    bind(rig, "management", "")
    made = log_in(rig, token_of()).json()
    assert (made["Type"], made["Policies"]) == ("management", None)


def test_same_policy_bound_twice_is_given_twice(rig: ServerRig) -> None:
    for _ in range(2):
        bind(rig, "policy", "dev")
    assert log_in(rig, token_of()).json()["Policies"] == ["dev", "dev"]


@pytest.mark.parametrize("groups", ["ops", ["ops", "x"]])
def test_list_claim_may_be_a_single_text(rig: ServerRig, groups: Any) -> None:
    bind(rig, "policy", "dev", '"ops" in list.groups')
    assert log_in(rig, token_of(groups=groups)).status_code == 200


@pytest.mark.parametrize(
    ("name", "claims", "status", "reason"),
    [
        ("nosuch", {}, 400, "no role or policy bindings matched"),
        ("${value.dept}", {"dept": "not a name"}, 500, "bind name for bind target is invalid"),
        ("${value.nosuch}", {}, 500, "cannot compute"),
        ("dev", {"user": {"a": 1}}, 500, "error converting claim"),
        ("dev", {"iss": "you"}, 401, "invalid JWT issuer: you"),
        ("dev", {"aud": "x"}, 401, "audience claim does not match"),
        ("dev", {"exp": 1}, 401, "token is expired"),
    ],
)
def test_login_that_gives_nothing_says_why(
    rig: ServerRig, name: str, claims: dict[str, Any], status: int, reason: str
) -> None:
    bind(rig, "policy", name)
    answer = log_in(rig, token_of(**claims))
    assert (answer.status_code, reason in answer.text) == (status, True), answer.text


def test_request_without_method_or_token_is_refused(rig: ServerRig) -> None:
    answer = rig.http.post("/v1/acl/login", json={})
    assert (answer.status_code, answer.text.count("missing")) == (400, 2)
    assert log_in(rig, "a.b.c", "nosuch").text == 'auth-method "nosuch" not found'
    assert log_in(rig, "zzz").status_code == 401
    assert log_in(rig, "x" * 200_000).status_code == 413
