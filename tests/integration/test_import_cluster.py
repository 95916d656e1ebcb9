"""`orchgit import` of a whole cluster, from what a real Nomad answered into a real server; and the
guide that says how."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchgit.cli.main import run
from orchgit.services.acl.settings import AclSettings
from tests.support.recorded_nomad import recorded_nomad
from tests.support.server_rig import ServerRig, server_rig

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "api"
ACL = [GOLDEN / "acl-objects" / f"{name}.json" for name in ("policies", "roles")]
GUIDE = ROOT / "docs" / "from-nomad.md"


@pytest.fixture(scope="module")
def old() -> Iterator[str]:
    with recorded_nomad([*sorted((GOLDEN / "bodies").glob("*.json")), *ACL]) as address:
        yield address


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    directory = tmp_path_factory.mktemp("new")
    with server_rig(directory, with_agent=False, acl=AclSettings(enabled=True)) as rig:
        token = rig.http.post("/v1/acl/bootstrap").json()["SecretID"]
        rig.http.headers["X-Nomad-Token"] = token
        yield rig


def test_cluster_is_taken_over_and_what_is_left_is_listed_with_the_reason(
    old: str, new: ServerRig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = new.http.headers["X-Nomad-Token"]
    into = ("-into", str(new.http.base_url), "-into-token", token)
    run(["import", "-address", old, "-out", str(tmp_path / "repo"), *into, "-variables"])
    seen = capsys.readouterr().out
    assert (tmp_path / "repo" / "web.nomad.hcl").exists()
    assert (tmp_path / "repo" / "dev" / "devjob.nomad.hcl").exists()
    dev = new.http.get("/v1/namespace/dev").json()
    assert dev["Capabilities"]["DisabledTaskDrivers"] == ["docker"]
    assert new.http.get("/v1/node/pool/p1").json()["Meta"] == {"k": "v"}
    assert new.http.get("/v1/var/app/x").json()["Items"] == {"a": "3"}
    assert new.http.get("/v1/acl/policy/pol1").json()["Description"] == "d2"
    assert "written as it is registered, as its stored text cannot be read" in seen
    left = seen.partition("Left:")[2]
    assert "node bod has not joined the new cluster" in left
    assert "quotas: the old cluster does not show them" in left
    assert "tokens, auth methods and binding rules: their secrets cannot be read" in left
    run(["import", "-address", old, "-out", str(tmp_path / "again"), *into, "-variables"])
    again = capsys.readouterr().out
    assert "+ namespace" not in again
    assert "+ variable" not in again


def test_import_replaces_objects_only_with_force(
    old: str, new: ServerRig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new.http.put("/v1/namespace/dev", json={"Name": "dev", "Description": "mine"})
    token = new.http.headers["X-Nomad-Token"]
    arguments = ["import", "-address", old, "-into", str(new.http.base_url), "-into-token", token]
    run([*arguments, "-out", str(tmp_path / "one")])
    assert "namespace dev: the new cluster has another one" in capsys.readouterr().out
    assert new.http.get("/v1/namespace/dev").json()["Description"] == "mine"
    run([*arguments, "-out", str(tmp_path / "two"), "-force"])
    assert "+ namespace dev" in capsys.readouterr().out
    assert new.http.get("/v1/namespace/dev").json()["Description"] == "d"


def test_guide_from_nomad_leads_to_a_source_that_owns_the_jobs(
    old: str, new: ServerRig, tmp_path: Path
) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    script = "\n".join(block for block in blocks if "example.com" not in block)
    token = new.http.headers["X-Nomad-Token"]
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "OLD": old,
        "NEW": str(new.http.base_url).rstrip("/"),
        "ORCHGIT_INTO_TOKEN": token,
        "TOKEN": token,
        "GIT_AUTHOR_NAME": "Ada",
        "GIT_AUTHOR_EMAIL": "ada@example.com",
        "GIT_COMMITTER_NAME": "Ada",
        "GIT_COMMITTER_EMAIL": "ada@example.com",
    }
    done = subprocess.run(
        ["bash", "-eux", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    web = new.http.get("/v1/job/web").json()
    assert web["Origin"]["Source"] == "jobs"
