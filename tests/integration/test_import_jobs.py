"""`orchgit import` and `orchgit job export` against a real server that holds the recorded jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobspec.parse import parse_job
from jobspec.writing.same_job import difference
from tests.support.dev_server import DevServer, dev_server, git

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "jobspec"
DISPATCHED = """
job "paper" {
  type = "batch"
  parameterized {}
  group "g" {
    task "t" {
      driver = "docker"
      config {
        image = "print:1"
      }
    }
  }
}
"""


def golden_jobs() -> Iterator[dict[str, Any]]:
    """Drivers are named so that nothing runs: the jobs stay pending."""
    for path in sorted(GOLDEN.glob("*.nomad.hcl")):
        job = json.loads(path.with_name(path.name.replace(".nomad.hcl", ".json")).read_text())[
            "Job"
        ]
        for group in job["TaskGroups"] or []:
            for task in group["Tasks"] or []:
                task["Driver"] = "docker" if task["Driver"] == "raw_exec" else task["Driver"]
        yield job


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    with dev_server(tmp_path_factory.mktemp("import") / "data", "-no-demo") as started:
        registered = [put(started, job) for job in golden_jobs()]
        assert sum(registered) > 30
        put(started, parse_job(DISPATCHED.encode(), filename="paper").spec)
        done = started.cli("job", "dispatch", "-detach", "paper")
        assert done.code == 0, done.text
        yield started


def put(server: DevServer, job: dict[str, Any]) -> bool:
    answer = httpx.put(f"{server.address}/v1/jobs", json={"Job": job}, trust_env=False)
    return answer.status_code == 200


def wanted(server: DevServer) -> dict[str, dict[str, Any]]:
    stubs = server.get("/v1/jobs", namespace="*")
    return {
        stub["ID"]: server.get(
            f"/v1/job/{stub['ID'].replace('/', '%2F')}", namespace=stub["Namespace"]
        )
        for stub in stubs
        if not stub["ParentID"]
    }


def test_import_writes_every_job_to_a_file_that_parses_to_the_same_job(
    server: DevServer, tmp_path: Path
) -> None:
    done = server.cli("import", "-address", server.address, "-out", str(tmp_path / "repo"))
    assert done.code == 0, done.text
    jobs = wanted(server)
    written = {}
    for path in (tmp_path / "repo").rglob("*.nomad.hcl"):
        spec = parse_job(path.read_bytes(), filename=path.name).spec
        written[spec["ID"]] = spec
    assert written.keys() == jobs.keys()
    assert {key: difference(jobs[key], written[key]) for key in jobs} == dict.fromkeys(jobs, "")
    assert "orchgit diff" in done.out


def test_import_overwrites_files_only_with_force(server: DevServer, tmp_path: Path) -> None:
    target = tmp_path / "paper.nomad.hcl"
    target.write_text("mine")
    done = server.cli("import", "-out", str(tmp_path), "-prefix", "paper")
    assert (done.code, target.read_text()) == (1, "mine")
    assert "-force" in done.err
    done = server.cli("import", "-out", str(tmp_path), "-prefix", "paper", "-force")
    assert done.code == 0, done.text
    assert target.read_text().startswith('job "paper" {')


def test_import_leaves_out_child_and_stopped_jobs(server: DevServer, tmp_path: Path) -> None:
    stopped = {**parse_job(DISPATCHED.encode(), filename="x").spec, "ID": "ended", "Name": "ended"}
    assert put(server, stopped)
    assert server.cli("job", "stop", "-yes", "-detach", "ended").code == 0
    assert any(stub["ParentID"] == "paper" for stub in server.get("/v1/jobs"))
    done = server.cli("import", "-out", str(tmp_path))
    assert "job ended: it is stopped" in done.out
    assert "dispatch-" not in done.out
    done = server.cli("import", "-out", str(tmp_path / "all"), "-prefix", "ended", "-stopped")
    assert (tmp_path / "all" / "ended.nomad.hcl").exists(), done.text
    assert server.cli("job", "stop", "-yes", "-purge", "-detach", "ended").code == 0


def test_export_prints_one_job(server: DevServer) -> None:
    done = server.cli("job", "export", "paper")
    assert done.code == 0, done.text
    spec = parse_job(done.out.encode(), filename="paper.nomad.hcl").spec
    assert difference(server.get("/v1/job/paper"), spec) == ""
    assert server.cli("job", "export", "no-such-job").code == 1


def test_push_of_imported_jobs_changes_no_job(server: DevServer, tmp_path: Path) -> None:
    assert server.cli("source", "add", "owner").code == 0
    git(tmp_path, "clone", f"{server.address}/git/owner.git", "clone")
    clone = tmp_path / "clone"
    git(clone, "checkout", "-B", "main")
    assert server.cli("import", "-out", "jobs", cwd=clone).code == 0
    # It has a number beyond 64 bits, which a client's JSON may hold as digits; a file has a double.
    (clone / "jobs" / "quirks.nomad.hcl").unlink()
    seen = server.cli("diff", cwd=clone)
    assert "update shop-web (jobs/shop-web.nomad.hcl:1)" in seen.out
    assert [line for line in seen.out.splitlines() if line.strip()[:1] in ("+", "-", "~")] == []


SUBMITTED = """# The team's own words
variable "image" {
  type = string
}
variable "count" {
  type = number
}

job "spoken" {
  type = "batch"
  group "g" {
    count = var.count
    task "t" {
      driver = "docker"
      config {
        image = var.image
      }
    }
  }
}
"""


def test_import_takes_the_teams_own_text_and_its_variables(
    server: DevServer, tmp_path: Path
) -> None:
    file = tmp_path / "spoken.nomad.hcl"
    file.write_text(SUBMITTED)
    (tmp_path / "some.vars").write_text("count = 2\n")
    variables = ("-var", "image=print:2", "-var-file", str(tmp_path / "some.vars"))
    done = server.cli("job", "run", "-detach", *variables, str(file))
    assert done.code == 0, done.text
    out = tmp_path / "out"
    done = server.cli("import", "-out", str(out), "-prefix", "spoken")
    assert done.code == 0, done.text
    assert (out / "spoken.nomad.hcl").read_text() == SUBMITTED
    given = (out / "spoken.vars.hcl").read_bytes()
    spec = parse_job(
        SUBMITTED.encode(), filename="spoken", var_files=[("spoken.vars.hcl", given)]
    ).spec
    assert difference(server.get("/v1/job/spoken"), spec) == ""
    assert "-var-file spoken.vars.hcl" in done.out
    done = server.cli("import", "-out", str(tmp_path / "dump"), "-prefix", "spoken", "-dump")
    assert "print:2" in (tmp_path / "dump" / "spoken.nomad.hcl").read_text()
    assert server.cli("job", "stop", "-yes", "-purge", "-detach", "spoken").code == 0


SCALED = """job "grown" {
  update {
    max_parallel = 0
  }
  group "g" {
    count = 1
    scaling {
      min = 0
      max = 5
    }
    service {
      provider = "nomad"
    }
    # The team's own remark.
    task "t" {
      driver = "mock_driver"
    }
  }
}
"""


def test_import_takes_the_text_of_a_job_that_was_only_scaled_since(
    server: DevServer, tmp_path: Path
) -> None:
    file = tmp_path / "grown.nomad.hcl"
    file.write_text(SCALED)
    assert server.cli("job", "run", "-detach", str(file)).code == 0
    done = server.cli("import", "-out", str(tmp_path / "new"), "-prefix", "grown")
    assert "job grown" not in done.out
    assert server.cli("job", "scale", "-detach", "grown", "0").code == 0
    done = server.cli("import", "-out", str(tmp_path / "scaled"), "-prefix", "grown")
    assert (tmp_path / "scaled" / "grown.nomad.hcl").read_text() == SCALED
    assert "since then TaskGroups[0].Count was changed" in done.out
    assert put(server, {**server.get("/v1/job/grown"), "Priority": 70})
    done = server.cli("import", "-out", str(tmp_path / "other"), "-prefix", "grown")
    assert "The team's own remark" not in (tmp_path / "other" / "grown.nomad.hcl").read_text()
    assert "its stored text is of an older version, which has another Priority" in done.out
    assert server.cli("job", "stop", "-yes", "-purge", "-detach", "grown").code == 0
