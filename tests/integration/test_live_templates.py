"""Templates of a running task under access control: what they read has the task's own rights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orchgit.services.acl.settings import AclSettings
from tests.support.polling import until_blocking
from tests.support.server_rig import ServerRig, server_rig
from tests.support.template_fixture import one_task_job, task_of

POLICY = 'namespace "default" { variables { path "shared/*" { capabilities = ["read"] } } }'
AT_ONCE = {"Min": 0, "Max": 0}


def template(text: str, name: str, **fields: Any) -> dict[str, Any]:
    fixed = {"DestPath": f"local/{name}", "Wait": AT_ONCE, "Splay": 0, "ChangeMode": "noop"}
    return {"EmbeddedTmpl": text, **fixed, **fields}


def put(rig: ServerRig, path: str, value: str) -> None:
    body = {"Path": path, "Items": {"v": value}}
    rig.http.put(f"/v1/var/{path}", json=body).raise_for_status()


def test_task_waits_for_its_rights_and_follows_what_it_may_read(tmp_path: Path) -> None:
    with server_rig(tmp_path, acl=AclSettings(enabled=True)) as rig:
        rig.http.headers["X-Nomad-Token"] = rig.http.post("/v1/acl/bootstrap").json()["SecretID"]
        rig.wait_ready_node()
        put(rig, "nomad/jobs/live", "own")
        put(rig, "shared/a", "shared")
        put(rig, "other/b", "hidden")
        texts = [
            template('{{ with nomadVar "nomad/jobs/live" }}{{ .v }}{{ end }}', "own"),
            template('{{ with nomadVar "shared/a" }}{{ .v }}{{ end }}', "shared"),
            template('{{ range nomadVarList "" }}{{ .Path }};{{ end }}', "list"),
        ]
        sleeper = {"command": "/bin/sleep", "args": ["1000"]}
        rig.register(one_task_job("live", task_of(Templates=texts, Config=sleeper), Type="service"))

        def state(found: list[dict[str, Any]]) -> dict[str, Any]:
            return (found[0]["TaskStates"] or {}).get("t") or {} if found else {}

        [alloc] = rig.wait_for(
            "/v1/job/live/allocations",
            lambda found: any(
                each["DisplayMessage"] == "Missing: nomad.var.block(shared/a@default.global)"
                for each in state(found).get("Events") or ()
            ),
        )
        local = tmp_path / "agent/alloc" / alloc["ID"] / "t/local"
        assert not (local / "shared").exists()
        rules = {"Name": "p", "Rules": POLICY, "JobACL": {"Namespace": "default", "JobID": "live"}}
        rig.http.put("/v1/acl/policy/p", json=rules).raise_for_status()
        rig.wait_for("/v1/job/live/allocations", lambda found: state(found)["State"] == "running")
        assert (local / "own").read_text() == "own"
        assert (local / "shared").read_text() == "shared"
        assert "other/b" not in (local / "list").read_text()
        put(rig, "shared/a", "changed")
        until_blocking(lambda: (local / "shared").read_text() == "changed")
        rig.http.delete("/v1/acl/policy/p").raise_for_status()
        put(rig, "shared/a", "secret")
        put(rig, "nomad/jobs/live", "again")
        until_blocking(lambda: (local / "own").read_text() == "again")
        assert (local / "shared").read_text() == "changed"
