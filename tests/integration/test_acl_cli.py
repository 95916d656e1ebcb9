"""`orchgit acl` and `orchgit login` against a real server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from orchgit.cli.client.login_callback import LoginCallback, LoginCode
from orchgit.cli.main import run
from orchgit.errors import InvalidInputError, TimedOutError
from orchgit.services.acl.settings import AclSettings
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, OidcProvider, oidc_provider
from tests.support.polling import until_blocking
from tests.support.server_rig import ServerRig, server_rig

RULES = 'namespace "default" { policy = "read" }\n'


class Cli:
    """Runs commands with the management token."""

    def __init__(self, rig: ServerRig, capsys: pytest.CaptureFixture[str]) -> None:
        self._rig = rig
        self._capsys = capsys
        self.secret = rig.http.headers["X-Nomad-Token"]

    def __call__(self, *arguments: str, code: int = 0) -> str:
        address = f"http://{self._rig.server.http_address}"
        assert run([*arguments, "-address", address, "-token", self.secret]) == code
        captured = self._capsys.readouterr()
        return captured.out + captured.err

    def keys(self, *arguments: str) -> list[str]:
        """Returns the names of the `Name = value` lines."""
        lines = self(*arguments).splitlines()
        return [line.partition("=")[0].strip() for line in lines if " = " in line]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    directory = tmp_path_factory.mktemp("acl-cli")
    with server_rig(directory, with_agent=False, acl=AclSettings(enabled=True)) as rig:
        rig.http.headers["X-Nomad-Token"] = rig.http.post("/v1/acl/bootstrap").json()["SecretID"]
        yield rig


@pytest.fixture
def cli(rig: ServerRig, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(rig, capsys)


def test_policies_and_roles_are_applied_shown_and_deleted(cli: Cli, tmp_path: Path) -> None:
    rules = tmp_path / "rules.hcl"
    rules.write_text(RULES)
    assert "Successfully wrote" in cli(
        "acl", "policy", "apply", "-description", "d", "p", str(rules)
    )
    cli("acl", "policy", "apply", "-job", "web", "-group", "g", "bound", str(rules))
    assert "web" in cli("acl", "policy", "info", "bound")
    shown = cli("acl", "policy", "info", "p")
    assert RULES.strip() in shown
    assert "Name" in cli("acl", "policy", "list")
    made = json.loads(cli("acl", "role", "create", "-name", "r", "-policy", "p", "-json"))
    cli("acl", "role", "update", "-policy", "bound", made["ID"])
    assert cli("acl", "role", "info", "-by-name", "-t", "{{len .Policies}}", "r").strip() == "2"
    expected = ["ID", "Name", "Description", "Policies", "Create Index", "Modify Index"]
    assert cli.keys("acl", "role", "info", made["ID"]) == expected
    assert "bound" in cli("acl", "role", "list")
    cli("acl", "role", "delete", made["ID"])
    assert "ACL role not found" in cli("acl", "role", "info", made["ID"], code=1)
    assert "This is a management token" in cli("acl", "policy", "self")
    assert "Successfully deleted" in cli("acl", "policy", "delete", "p")
    wrong = tmp_path / "wrong.hcl"
    wrong.write_text("nonsense")
    assert "failed to parse rules" in cli("acl", "policy", "apply", "p", str(wrong), code=1)


def test_token_is_created_changed_and_deleted(cli: Cli) -> None:
    text = cli("acl", "token", "create", "-name", "c", "-policy", "p", "-ttl", "1h", "-json")
    made = json.loads(text)
    keys = ["Accessor ID", "Secret ID", "Name", "Type", "Global", "Create Time", "Expiry Time"]
    keys += ["Create Index", "Modify Index", "Policies"]
    assert cli.keys("acl", "token", "info", made["AccessorID"]) == keys
    assert cli.keys("acl", "token", "self") == [*keys, "Roles"]
    cli("acl", "token", "update", "-name", "renamed", made["AccessorID"])
    listed = cli("acl", "token", "list")
    assert ("renamed" in listed, made["SecretID"] in listed) == (True, False)
    cli("acl", "token", "delete", made["AccessorID"])
    assert "ACL token not found" in cli("acl", "token", "info", made["AccessorID"], code=1)
    assert "token missing policies" in cli("acl", "token", "create", code=1)


def test_auth_method_and_rule_are_created_changed_and_deleted(cli: Cli) -> None:
    config = json.dumps({"JWKSURL": "http://127.0.0.1:1/keys", "SigningAlgs": ["ES256"]})
    method = ("-type", "JWT", "-token-locality", "local", "-max-token-ttl", "1h")
    cli("acl", "auth-method", "create", "-name", "jm", *method, "-config", config)
    cli("acl", "auth-method", "update", "-max-token-ttl", "2h", "jm")
    keys = cli.keys("acl", "auth-method", "info", "jm")
    assert keys[:3] == ["Name", "Type", "Locality"]
    assert keys[-1] == "List claim mappings"
    assert "2h0m0s" in cli("acl", "auth-method", "info", "jm")
    rule = ("-bind-type", "policy", "-bind-name", "p", "-selector", "value.a == b")
    text = cli("acl", "binding-rule", "create", "-auth-method", "jm", *rule, "-json")
    rule_id = json.loads(text)["ID"]
    changed = cli("acl", "binding-rule", "update", "-bind-name", "q", rule_id, "-json")
    assert json.loads(changed)["Selector"] == "value.a == b"
    assert "jm" in cli("acl", "binding-rule", "list")
    assert "Selector" in cli.keys("acl", "binding-rule", "info", rule_id)
    cli("acl", "binding-rule", "delete", rule_id)
    cli("acl", "auth-method", "delete", "jm")
    assert "not found" in cli("acl", "auth-method", "delete", "jm", code=1)


def test_login_through_a_browser_prints_a_token(
    rig: ServerRig, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = tmp_path / "opened"
    program = tmp_path / "xdg-open"
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}.new && mv {opened}.new {opened}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with oidc_provider() as provider:
        store_login(rig, provider)

        def browse() -> None:
            until_blocking(opened.exists)
            url = opened.read_text()
            state, code = provider.authorize(url)
            back = parse_qs(urlsplit(url).query)["redirect_uri"][0]
            httpx.get(back, params={"state": state, "code": code}, trust_env=False)

        browser = threading.Thread(target=browse)
        browser.start()
        text = cli("login", "-oidc-callback-addr", "127.0.0.1:0", "-json")
        browser.join()
    assert json.loads(text[text.index("{") : text.rindex("}") + 1])["Policies"] == ["p"]


def store_login(rig: ServerRig, provider: OidcProvider) -> None:
    method = {
        "Name": "sso",
        "Type": "OIDC",
        "TokenLocality": "local",
        "MaxTokenTTL": "1h",
        "Default": True,
        "Config": {
            "OIDCDiscoveryURL": provider.issuer,
            "OIDCClientID": CLIENT_ID,
            "OIDCClientSecret": CLIENT_SECRET,
            "AllowedRedirectURIs": ["http://127.0.0.1/oidc/callback"],
        },
    }
    rule = {"AuthMethod": "sso", "BindType": "policy", "BindName": "p"}
    for path, body in (
        ("/v1/acl/policy/p", {"Name": "p", "Rules": RULES}),
        ("/v1/acl/auth-method", method),
        ("/v1/acl/binding-rule", rule),
    ):
        assert rig.http.put(path, json=body).status_code == 200


def asked(callback: LoginCallback, *queries: str) -> LoginCode:
    """Sends a browser's requests to the callback, one after the other."""

    def send() -> None:
        for query in queries:
            httpx.get(f"{callback.uri}{query}", trust_env=False)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        return callback.wait("our state", timeout_s=10.0)
    finally:
        thread.join()


def test_callback_takes_only_the_answer_to_its_login() -> None:
    with LoginCallback("127.0.0.1:0", "/oidc/callback") as callback:
        wrong = ("/other?state=our+state&code=x", "?state=else&code=y")
        found = asked(callback, *wrong, "?state=our+state&code=z")
        assert (found.state, found.code) == ("our state", "z")
        with pytest.raises(InvalidInputError, match="denied"):
            asked(callback, "?state=our+state&error=access_denied")
        with pytest.raises(TimedOutError, match="did not come back"):
            callback.wait("our state", timeout_s=0.05)


def test_address_of_the_pages_logs_a_browser_in_where_that_is_asked_for(
    rig: ServerRig, cli: Cli
) -> None:
    address = cli("ui", "-authenticate").strip()
    assert cli.secret not in address
    entered = httpx.get(address, trust_env=False)
    assert (entered.status_code, entered.headers["location"]) == (303, "/ui/sources")
    assert cli.secret in entered.headers["set-cookie"]
    cli.secret = ""
    refused = cli("ui", "-authenticate", code=1)
    assert refused.startswith("Error: cannot make a one-time token to log in with: "), refused
