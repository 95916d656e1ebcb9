"""A task of a real agent gets its identity, and anybody can verify it with the published keys."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.support.polling import until_blocking
from tests.support.server_rig import ServerRig, server_rig

ISSUER = "https://orchgit.example"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    with server_rig(tmp_path_factory.mktemp("identities"), oidc_issuer=ISSUER) as started:
        started.wait_ready_node()
        yield started


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def verified_by_published_keys(rig: ServerRig, token: str) -> dict[str, Any]:
    """As a stranger would: discovery, keys, signature."""
    discovery = rig.http.get("/.well-known/openid-configuration").json()
    assert discovery["issuer"] == ISSUER
    assert discovery["jwks_uri"] == f"{ISSUER}/.well-known/jwks.json"
    head, payload, signature = token.split(".")
    header = json.loads(decoded(head))
    keys = rig.http.get("/.well-known/jwks.json").json()["keys"]
    [key] = [each for each in keys if each["kid"] == header["kid"]]
    numbers = rsa.RSAPublicNumbers(
        int.from_bytes(decoded(key["e"])), int.from_bytes(decoded(key["n"]))
    )
    numbers.public_key().verify(
        decoded(signature), f"{head}.{payload}".encode(), padding.PKCS1v15(), hashes.SHA256()
    )
    return dict(json.loads(decoded(payload)))


def test_task_gets_its_identity_in_its_environment_and_as_a_file(rig: ServerRig) -> None:
    script = 'cp "$NOMAD_SECRETS_DIR/nomad_ci.jwt" local/copy; echo "$NOMAD_TOKEN"; sleep 600'
    task = {
        "Name": "t",
        "Driver": "raw_exec",
        "Config": {"command": "/bin/sh", "args": ["-c", script]},
        "Identity": {"Env": True},
        "Identities": [
            {"Name": "ci", "Audience": ["ci.example"], "File": True, "TTL": 3600 * 10**9}
        ],
    }
    group = {"Name": "g", "Tasks": [task]}
    rig.register({"ID": "who", "Type": "service", "TaskGroups": [group]})
    [alloc] = rig.wait_for(
        "/v1/job/who/allocations",
        lambda found: bool(found) and found[0]["ClientStatus"] == "running",
    )
    alloc_id = alloc["ID"]
    log = f"/v1/client/fs/logs/{alloc_id}?task=t&type=stdout&plain=true"
    token = until_blocking(lambda: rig.http.get(log).text)
    claims = verified_by_published_keys(rig, token.strip())
    assert claims["nomad_allocation_id"] == alloc_id
    assert claims["iss"] == ISSUER

    named = Path(rig.agent.config.alloc_root) / alloc_id / "t" / "secrets" / "nomad_ci.jwt"
    assert named.stat().st_mode & 0o777 == 0o600
    assert verified_by_published_keys(rig, named.read_text())["aud"] == "ci.example"
    rig.http.delete("/v1/job/who")


def test_node_tells_what_its_identity_says_and_gets_a_new_one_when_asked(rig: ServerRig) -> None:
    node_id = rig.wait_ready_node()
    first = rig.http.get("/v1/client/identity").json()["Claims"]
    assert first["nomad_node_id"] == node_id
    assert first["sub"] == f"node:global:default:{node_id}:default"
    assert first["exp"] - first["iat"] == 24 * 3600
    assert rig.http.get("/v1/client/identity").json()["Claims"]["jti"] == first["jti"]
    assert rig.http.put("/v1/client/identity/renew", json={}).status_code == 200
    assert rig.http.get("/v1/client/identity").json()["Claims"]["jti"] != first["jti"]
