"""Bad input through a real push: a clear error with its place, and what runs goes on."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.e2e.conftest import Repository
from tests.support.job_texts import sleeper

BAD_FILES = {
    "wrong-type": (b'job "x" {\n  priority = "high"\n}\n', ":2:15:", "number is required"),
    "unknown-block": (b'job "x" {\n  gruop "g" {}\n}\n', ":2:3:", "group"),
    "not-hcl": (b"job {{{ \n", ":1:", ""),
    "invalid-utf-8": (b'job "x" {\n  # \xff\xfe\n}\n', ":2:", "UTF-8"),
    "unclosed": (b'job "x" {\n  type = "batch\n}\n', ":2:", ""),
    "negative-count": (
        sleeper("x").replace("count = 1", "count = -1").encode(),
        ":4:",
        "negative",
    ),
    "deep": (b'job "x" {\n  meta = ' + b"[" * 5000 + b"\n}\n", ":2:", "deep"),
}


@pytest.mark.parametrize("name", sorted(BAD_FILES))
def test_invalid_file_is_refused_with_its_line(repository: Repository, name: str) -> None:
    content, place, word = BAD_FILES[name]
    repository.write("good.nomad.hcl", sleeper(repository.name))
    (repository.path / "bad.nomad.hcl").write_bytes(content)
    repository.commit("Something is wrong")
    seen = repository.refused_push()
    assert f"bad.nomad.hcl{place}" in seen, seen
    assert word in seen
    assert "Traceback" not in seen
    source = repository.server.get(f"/v1/gitops/source/{repository.name}")
    assert source["Status"]["AppliedCommit"] == ""
    (repository.path / "bad.nomad.hcl").unlink()
    repository.commit("Put right")
    assert "Healthy after" in repository.push()


def test_unknown_driver_is_shown_in_the_plan_and_the_job_waits(repository: Repository) -> None:
    text = sleeper(repository.name).replace('driver = "raw_exec"', 'driver = "raw_exce"')
    repository.write("driver.nomad.hcl", text)
    repository.commit("No such driver")
    seen = repository.push("-o", "detach")
    assert "missing driver raw_exce" in seen, seen
    found = repository.server.wait_for(
        f"/v1/job/{repository.name}/evaluations",
        lambda evals: any(each["Status"] == "blocked" for each in evals),
    )
    assert found


def test_unplaceable_rollout_fails_at_its_deadline_with_job_and_reason(
    repository: Repository,
) -> None:
    text = sleeper(repository.name).replace('driver = "raw_exec"', 'driver = "raw_exce"')
    repository.write("driver.nomad.hcl", text)
    commit = repository.commit("No such driver")
    changed = repository.server.cli("source", "set", repository.name, "-rollout-deadline", "1s")
    assert changed.code == 0, changed.text
    seen = repository.push()
    why = "no progress: 0/1 healthy, 1 not placed (missing driver raw_exce on 1 node)"
    assert f"Failed after 1.0 s: failed: {repository.name} ({why})" in re.sub(
        r"after \d+\.\d s", "after 1.0 s", seen
    ), seen
    shown = " ".join(repository.server.cli("rollout", "status", commit[:10]).out.split())
    assert f"failed: {repository.name} (no progress: 0/1 healthy" in shown, shown


def test_large_body_and_wrong_json_over_http_are_refused_by_name(repository: Repository) -> None:
    with httpx.Client(base_url=repository.server.address, trust_env=False) as http:
        wrong = http.put("/v1/jobs", json={"Job": {"ID": "x", "TaskGroups": [{"Count": "many"}]}})
        assert wrong.status_code == 400
        assert "Count" in wrong.text
        assert http.put("/v1/jobs", content=b"{").status_code == 400
        huge = http.put("/v1/jobs", content=b" " * (110 * 1024 * 1024))
        assert huge.status_code == 413, huge.text
        assert "bytes" in huge.text
        assert http.get("/v1/status/leader").status_code == 200
