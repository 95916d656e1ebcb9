"""Quotas over HTTP and on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchgit.cli.main import run as orchgit
from tests.support.server_rig import ServerRig, server_rig

SPEC = {
    "Name": "team",
    "Description": "Small",
    "Limits": [{"Region": "global", "RegionLimit": {"CPU": 500, "MemoryMB": 300}}],
}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    with server_rig(tmp_path_factory.mktemp("quotas"), with_agent=False) as rig:
        yield rig


def refused(rig: ServerRig, **changes: Any) -> str:
    answer = rig.http.post("/v1/quota", json={**SPEC, "Name": "other", **changes})
    assert answer.status_code == 400, answer.text
    return answer.text


def test_quota_is_stored_listed_and_deleted_unless_a_namespace_has_it(rig: ServerRig) -> None:
    assert rig.http.post("/v1/quota", json=SPEC).status_code == 200
    read = rig.http.get("/v1/quota/team").json()
    (limit,) = read["Limits"]
    assert limit["RegionLimit"]["CPU"] == 500
    assert limit["RegionLimit"]["MemoryMaxMB"] == 0
    assert rig.http.get("/v1/quotas", params={"prefix": "te"}).json() == [read]
    assert rig.http.get("/v1/quotas", params={"prefix": "x"}).json() == []
    usage = rig.http.get("/v1/quota/usage/team").json()
    assert usage["Used"][limit["Hash"]]["RegionLimit"]["CPU"] == 0
    assert rig.http.get("/v1/quota-usages").json() == [usage]
    named = {"Name": "small", "Quota": "team"}
    assert rig.http.post("/v1/namespace/small", json=named).status_code == 200
    kept = rig.http.delete("/v1/quota/team")
    assert (kept.status_code, "namespaces have it (small)" in kept.text) == (500, True), kept.text
    assert rig.http.delete("/v1/namespace/small").status_code == 200
    assert rig.http.delete("/v1/quota/team").status_code == 200
    assert rig.http.get("/v1/quota/team").status_code == 404
    assert rig.http.get("/v1/quota/usage/team").status_code == 404
    assert rig.http.delete("/v1/quota/team").status_code == 404


def test_namespace_of_an_unknown_quota_is_refused_as_nomad_does(rig: ServerRig) -> None:
    answer = rig.http.post("/v1/namespace/q", json={"Name": "q", "Quota": "x"})
    assert (answer.status_code, answer.text) == (500, 'namespace "q" using non-existent quota "x"')


def test_limit_without_effect_is_refused(rig: ServerRig) -> None:
    def limits(**limit: Any) -> str:
        return refused(rig, Limits=[{"Region": "global", **limit}])

    devices = [{"Name": "nvidia/gpu", "Count": 1}]
    assert "RegionLimit.Devices would have no effect" in limits(RegionLimit={"Devices": devices})
    assert "VariablesLimit would have no effect" in limits(VariablesLimit=5)
    assert 'region "mars", which would have no effect' in limits(Region="mars")
    assert "it needs a limit" in refused(rig, Limits=[])
    assert "its name must match" in refused(rig, Name="a b")


def test_commands_apply_show_and_delete_a_quota(
    rig: ServerRig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str, code: int = 0) -> str:
        address = () if arguments[1] == "init" else ("-address", str(rig.http.base_url))
        found = orchgit(["quota", arguments[1], *address, *arguments[2:]])
        shown = capsys.readouterr()
        assert found == code, shown
        return shown.err if code else shown.out

    spec = tmp_path / "spec.hcl"
    assert run("quota", "init", str(spec)) == f"Example quota specification written to {spec}\n"
    applied = run("quota", "apply", str(spec))
    assert applied == 'Successfully applied quota specification "default-quota"!\n'
    assert "default-quota  Limit the shared default namespace" in run("quota", "list")
    status = run("quota", "status", "default")
    assert "0 / 2500   0 / inf" in status
    assert '"UsageMap"' in run("quota", "inspect", "default-quota")
    as_json = tmp_path / "spec.json"
    run("quota", "init", "-json", str(as_json))
    run("quota", "apply", "-json", str(as_json))
    spec.write_text('name = "x"\nlimit {\n  region_limit {\n    gpu = 1\n  }\n}\n')
    wrong = run("quota", "apply", str(spec), code=1)
    assert f"{spec}:4:5: cannot use 'gpu' here" in wrong
    deleted = run("quota", "delete", "default-quota")
    assert deleted == 'Successfully deleted quota "default-quota"!\n'
