"""No secret of a token lies anywhere but in the answers that are made to show it."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchgit.api.encoded_events import told_event
from orchgit.api.shapes import nomad_json
from orchgit.server.audit.settings import AuditSettings
from orchgit.services.acl.settings import AclSettings
from tests.support.dev_server import git
from tests.support.polling import until_blocking
from tests.support.secrets import files_with, spellings
from tests.support.server_rig import ServerRig, server_rig

RULES = 'namespace "default" { policy = "write" gitops { policy = "write" } }'
GUESS = "0badc0de-1111-4222-8333-444444444444"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    settings: dict[str, Any] = {"acl": AclSettings(enabled=True), "audit": AuditSettings()}
    with server_rig(tmp_path_factory.mktemp("secrets"), **settings) as found:
        yield found


def test_secrets_of_tokens_are_nowhere(
    rig: ServerRig, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Made, used in every way, refused, exchanged, deleted: then files of the server, its log, the
    audit log, events, lists, errors, snapshots and questions in SQL are searched."""
    http = rig.http
    management = http.post("/v1/acl/bootstrap").json()
    http.headers["X-Nomad-Token"] = management["SecretID"]
    rig.wait_ready_node()
    errors = [http.post("/v1/acl/bootstrap").text]
    made = http.put("/v1/acl/policy/team", json={"Name": "team", "Rules": RULES})
    assert made.status_code == 200, made.text
    body = {"Name": "t", "Type": "client", "Policies": ["team"]}
    client, gone = (http.post("/v1/acl/token", json=body).json() for _ in range(2))
    once = {"X-Nomad-Token": client["SecretID"]}
    one_time = http.post("/v1/acl/token/onetime", headers=once).json()["OneTimeToken"]
    traded = {"OneTimeSecretID": one_time["OneTimeSecretID"]}
    assert http.post("/v1/acl/token/onetime/exchange", json=traded).status_code == 200
    errors += [http.post("/v1/acl/token/onetime/exchange", json=traded).text]
    http.delete(f"/v1/acl/token/{gone['AccessorID']}")
    identity = identity_of_a_task(rig)

    secrets = [
        *(each["SecretID"] for each in (management, client, gone)),
        *(GUESS, one_time["OneTimeSecretID"], identity, f"{identity[:-9]}forged123"),
    ]
    for secret in secrets:
        for headers in ({"X-Nomad-Token": secret}, {"Authorization": f"Bearer {secret}"}):
            for path in ("/v1/jobs", "/v1/acl/tokens", "/v1/nowhere", f"/v1/job/{secret}"):
                answer = http.get(path, headers=headers)
                if secret not in path:
                    errors.append(answer.text)
        errors.append(pushed(rig, secret, tmp_path))
    text = {"X-Nomad-Token": client["SecretID"]}
    sources = [http.get("/v1/gitops/sources", headers=text).text]

    wanted = [spelling for secret in secrets for spelling in spellings(secret)]
    # A client that puts a secret into a path asked for it; the audit log keeps paths.
    audited = rig.data_dir / "server" / "audit" / "audit.log"
    lines = [line for line in audited.read_text().splitlines() if '"/v1/job/' not in line]
    found = [each for each in files_with(rig.data_dir / "server", wanted) if Path(each) != audited]
    assert not found
    lists = ("/v1/acl/tokens", "/v1/acl/policies", "/v1/gitops/authors", "/v1/agent/self")
    answers = [http.get(path).text for path in lists]
    answers += _events(rig)
    answers += [_in_sql(rig), *_snapshot(rig, tmp_path), *sources, *errors, *lines]
    out = capfd.readouterr()
    answers += [out.out, out.err]
    leaks = [each for each in answers if any(one in each.encode() for one in wanted)]
    assert not leaks, leaks[0][:2000]


def identity_of_a_task(rig: ServerRig) -> str:
    """The token of a running task, which the task itself prints to a file of its own."""
    script = {"command": "/bin/sh", "args": ["-c", 'echo "$NOMAD_TOKEN" > local/t; exec sleep 600']}
    task = {"Name": "t", "Driver": "raw_exec", "Config": script, "Identity": {"Env": True}}
    rig.register({"ID": "who", "Type": "service", "TaskGroups": [{"Name": "g", "Tasks": [task]}]})
    [alloc] = rig.wait_for(
        "/v1/job/who/allocations",
        lambda found: bool(found) and found[0]["ClientStatus"] == "running",
    )
    file = Path(rig.agent.config.alloc_root) / alloc["ID"] / "t" / "local" / "t"
    return until_blocking(lambda: (file.exists() and file.read_text().strip()) or "")


def pushed(rig: ServerRig, secret: str, directory: Path) -> str:
    """What git prints of a push with the secret as its password, without git's own address."""
    work = directory / "work"
    if not work.exists():
        rig.http.put("/v1/gitops/source/site", json={"Kind": "builtin", "Policies": ["team"]})
        work.mkdir()
        git(work, "init", "-q")
        git(work, "commit", "-q", "--allow-empty", "-m", "First")
    url = f"http://git:{secret}@{rig.server.http_address}/git/site.git"
    done = git(work, "push", url, "HEAD:main", check=False)
    return done.text.replace(url, "URL")


def _events(rig: ServerRig) -> list[str]:
    """Every event that is still kept, as the stream sends it."""
    held = [event for batch in rig.server.events.after(0) for event in batch.events]
    assert {"ACLToken", "ACLPolicy"} <= {event.topic for event in held}
    return [nomad_json.encode(told_event(event)).decode() for event in held]


def _in_sql(rig: ServerRig) -> str:
    """Every table that a question may name."""
    answer = rig.http.get("/v1/operator/sql")
    tables = [each["Name"] for each in answer.json()]
    asked = [
        rig.http.post("/v1/operator/sql", json={"Query": f'select * from "{name}"'}).text
        for name in tables
    ]
    return "\n".join(asked)


def _snapshot(rig: ServerRig, directory: Path) -> list[str]:
    """A snapshot's content, and what inspecting it prints."""
    file = directory / "backup.snap"
    answer: httpx.Response = rig.http.get("/v1/operator/snapshot")
    assert answer.status_code == 200, answer.text
    file.write_bytes(answer.content)
    shown = subprocess.run(
        [sys.executable, "-m", "orchgit", "operator", "snapshot", "inspect", str(file)],
        capture_output=True,
        text=True,
        check=True,
    )
    return [gzip.decompress(answer.content).decode("latin-1"), shown.stdout, shown.stderr]
