"""Tasks with tokens of Vault, from a real server and agent at a stub of Vault's HTTP API."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agent.config import ConsulConfig
from agent.http_json import HttpService
from agent.vault.tokens import VaultConfig
from orchgit.services.jobs.admission import JobSettings
from tests.support.consul_stub import ConsulStub
from tests.support.polling import until_blocking
from tests.support.server_rig import ServerRig
from tests.support.vault_stub import VaultStub

_SCRIPT = 'echo "$VAULT_TOKEN $(cat secrets/vault_token)" >> local/seen; exec sleep 600'


def vault_job(**fields: Any) -> dict[str, Any]:
    return {
        "ID": "web",
        "Type": "service",
        "TaskGroups": [
            {
                "Name": "g",
                "RestartPolicy": {"Attempts": 0, "Mode": "fail"},
                "ReschedulePolicy": {"Attempts": 0, "Unlimited": False},
                "Tasks": [
                    {
                        "Name": "t",
                        "Driver": "raw_exec",
                        "Config": {"command": "/bin/sh", "args": ["-c", _SCRIPT]},
                        "Resources": {"CPU": 50, "MemoryMB": 64},
                        "Vault": {"Role": "web", "Namespace": "team"},
                        "Identities": [{"Name": "vault_default", "Audience": ["vault.io"]}],
                        **fields,
                    }
                ],
            }
        ],
    }


@contextlib.contextmanager
def node_with(vault: VaultStub, directory: Path, **agent_config: Any) -> Iterator[ServerRig]:
    config = VaultConfig(service=HttpService(url=vault.url, timeout_s=60))
    settings = JobSettings(vault_clusters=frozenset(["default"]))
    rig = ServerRig(
        directory, agent_config={"vault": config, **agent_config}, job_settings=settings
    )
    rig.start()
    try:
        node_id = rig.wait_ready_node()
        rig.wait_for(
            f"/v1/node/{node_id}",
            lambda node: node["Attributes"].get("vault.version") == "1.15.4",
        )
        yield rig
    finally:
        rig.stop()


def allocation(rig: ServerRig, status: str) -> dict[str, Any]:
    (found,) = rig.wait_for(
        "/v1/job/web/allocations",
        lambda found: [each["ClientStatus"] for each in found] == [status],
    )
    return dict(found)


def test_task_gets_a_token_for_its_identity_and_keeps_one_that_is_good(tmp_path: Path) -> None:
    with VaultStub(lease_s=2) as vault, node_with(vault, tmp_path) as rig:
        rig.register(vault_job())
        alloc = allocation(rig, "running")
        seen = tmp_path / "agent/alloc" / alloc["ID"] / "t/local/seen"
        assert until_blocking(seen.exists, 120)
        assert until_blocking(seen.read_text, 120) == "hvs.1 hvs.1\n"
        (login,) = vault.logins
        assert (login["role"], login["namespace"], login["aud"]) == ("web", "team", "vault.io")
        assert login["nomad_job_id"] == "web"
        until_blocking(lambda: "hvs.1" in vault.renewed, 120)
        vault.revoked.add("hvs.1")
        until_blocking(lambda: seen.read_text() == "hvs.1 hvs.1\nhvs.2 hvs.2\n", 120)
        shown = rig.http.get(f"/v1/allocation/{alloc['ID']}").text
        assert "Vault token was renewed" in shown
        assert "hvs." not in shown


def test_refused_login_and_missing_identity_fail_the_task_and_say_why(tmp_path: Path) -> None:
    with VaultStub() as vault, node_with(vault, tmp_path) as rig:
        vault.refuses = True
        rig.register(vault_job())
        events = allocation(rig, "failed")["TaskStates"]["t"]["Events"]
        assert any("role could not be found" in each["DisplayMessage"] for each in events)
        rig.http.delete("/v1/job/web", params={"purge": "true"})
        rig.register({**vault_job(Identities=None), "ID": "other"})
        (found,) = rig.wait_for(
            "/v1/job/other/allocations",
            lambda found: [each["ClientStatus"] for each in found] == ["failed"],
        )
        events = found["TaskStates"]["t"]["Events"]
        assert any('no identity "vault_default"' in each["DisplayMessage"] for each in events)


def test_templates_read_consul_and_vault_before_the_task_starts(tmp_path: Path) -> None:
    text = '{{ key "web/port" }} {{ with secret "kv1/db" }}{{ .Data.password }}{{ end }}'
    template = {"EmbeddedTmpl": text, "DestPath": "local/out", "ChangeMode": "noop"}
    with VaultStub() as vault, ConsulStub() as consul:
        vault.secrets = {"kv1/db": {"data": {"password": "pw"}}}
        consul.keys = {"web/port": "80"}
        config = ConsulConfig(service=HttpService(url=consul.url, timeout_s=60))
        with node_with(vault, tmp_path, consul=config) as rig:
            rig.register(vault_job(Templates=[template]))
            alloc = allocation(rig, "running")
            out = tmp_path / "agent/alloc" / alloc["ID"] / "t/local/out"
            assert out.read_text() == "80 pw"
        assert vault.readers[-1] == ("hvs.1", "team")


def test_template_that_may_not_read_its_secret_waits_and_says_why(tmp_path: Path) -> None:
    template = {"EmbeddedTmpl": '{{ secret "kv1/db" }}', "DestPath": "local/out"}
    with VaultStub() as vault, node_with(vault, tmp_path) as rig:
        vault.revoked.add("hvs.1")
        rig.register(vault_job(Templates=[template]))
        wanted = "Missing: vault.read(kv1/db) (vault.read(kv1/db): Code: 403. Errors: permission"
        rig.wait_for("/v1/job/web/allocations", lambda found: wanted in str(found))
