"""Events about access control objects: in Nomad's form, for management only, without any secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from orchgit.services.acl.settings import AclSettings
from tests.support.golden_steps import differences
from tests.support.server_rig import ServerRig, server_rig

RECORDED = Path(__file__).parents[1] / "golden" / "api" / "bodies" / "event-types.json"
POLICY = 'quota { policy = "read" }'


def recorded() -> dict[str, Any]:
    """Returns the recorded events of these topics by their types."""
    types = json.loads(RECORDED.read_text())["types"]
    found = [types[name]["event"] for name in types if name.startswith("ACL")]
    return {each["Type"]: each for each in found}


def lives(rig: ServerRig) -> list[str]:
    """Creates and deletes one object of each kind. Returns the secrets that were made."""
    key = recorded()["ACLAuthMethodUpserted"]["Payload"]["AuthMethod"]["Config"]
    method = {
        "Name": "evm",
        "Type": "JWT",
        "TokenLocality": "local",
        "MaxTokenTTL": "1h",
        "Config": {"JWTValidationPubKeys": key["JWTValidationPubKeys"]},
    }
    rule = {"AuthMethod": "evm", "BindType": "policy", "BindName": "evp"}

    def put(path: str, body: Any) -> httpx.Response:
        return rig.http.put(f"/v1/acl/{path}", json=body)

    put("policy/evp", {"Name": "evp", "Rules": POLICY})
    token = put("token", {"Name": "evt", "Type": "client", "Policies": ["evp"]}).json()
    role = put("role", {"Name": "evr", "Policies": [{"Name": "evp"}]}).json()["ID"]
    secret = {"Config": {**method["Config"], "OIDCClientSecret": "a secret of the client"}}
    assert put("auth-method", {**method, **secret, "Name": "other"}).status_code == 200
    put("auth-method", method)
    made = put("binding-rule", rule).json()["ID"]
    paths = [f"binding-rule/{made}", "auth-method/evm", f"role/{role}", "policy/evp"]
    for path in (*paths, f"token/{token['AccessorID']}"):
        assert rig.http.delete(f"/v1/acl/{path}").status_code == 200
    return [token["SecretID"], rig.http.headers["X-Nomad-Token"], "a secret of the client"]


def events(rig: ServerRig) -> tuple[dict[str, Any], str]:
    """Returns the newest event of each type, and all lines up to the last deletion."""
    found: dict[str, Any] = {}
    text = ""
    with rig.http.stream("GET", "/v1/event/stream?topic=*&index=1") as stream:
        for line in stream.iter_lines():
            text += line
            for event in json.loads(line).get("Events", ()):
                found[event["Type"]] = event
            if "ACLTokenDeleted" in found:
                return found, text
    return found, text


def test_events_have_the_recorded_form_and_no_secret(tmp_path: Path) -> None:
    with server_rig(tmp_path, with_agent=False, acl=AclSettings(enabled=True)) as rig:
        rig.http.headers["X-Nomad-Token"] = rig.http.post("/v1/acl/bootstrap").json()["SecretID"]
        secrets = lives(rig)
        found, text = events(rig)
        refused = rig.http.get("/v1/event/stream?topic=ACLToken", headers={"X-Nomad-Token": ""})
        assert refused.content == b""
    assert not [secret for secret in secrets if secret in text]
    for kind, event in recorded().items():
        assert list(differences(event, found[kind])) == [], kind
