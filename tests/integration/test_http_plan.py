"""Every recorded difference over HTTP: job registered and running, then the next one planned."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.run_diff_golden import differences
from tests.support.server_rig import ServerRig, server_rig

CASES = sorted((Path(__file__).parents[1] / "golden" / "diff").glob("*.json"))


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    with server_rig(tmp_path_factory.mktemp("plans")) as started:
        started.wait_ready_node()
        yield started


@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_plan_gives_the_recorded_answer(rig: ServerRig, file: Path) -> None:
    case = json.loads(file.read_text(encoding="utf-8"))
    with _registered(rig, case["old"], file.stem, case["running_at_plan"]) as job_id:
        planned = _plan(rig, {**case["new"], "ID": job_id})
    wanted = {key: case[key] for key in ("Warnings", "Diff")}
    wanted["Diff"]["ID"] = job_id
    found = {key: planned[key] for key in wanted}
    found["Updates"] = planned["Annotations"]["DesiredTGUpdates"]
    found["Failed"] = sorted(planned["FailedTGAllocs"] or ())
    wanted |= {"Updates": case["DesiredTGUpdates"], "Failed": sorted(case["FailedTGAllocs"] or ())}
    assert list(differences(wanted, found, "plan")) == []


def test_job_registered_with_stop_stops_and_starts_again(rig: ServerRig) -> None:
    case = json.loads(next(file for file in CASES if file.stem == "job_stop").read_text())
    with _registered(rig, case["old"], "stopped-by-hand", 1) as job_id:
        rig.register({**case["new"], "ID": job_id})
        path = f"/v1/job/{job_id}"
        assert rig.wait_for(path, lambda job: bool(job["Stop"]))["Status"] != "pending"
        rig.wait_for(f"{path}/allocations", lambda all_: all_[0]["ClientStatus"] == "complete")
        back = _plan(rig, {**case["old"], "ID": job_id})
        assert [field["Name"] for field in back["Diff"]["Fields"]] == ["Stop"]
        assert back["Annotations"]["DesiredTGUpdates"]["g"]["Place"] == 1


class _registered:
    """A job of its own name while a test runs."""

    def __init__(self, rig: ServerRig, job: dict[str, Any] | None, name: str, running: int):
        self._rig, self._job, self._running = rig, job, running
        self._job_id = f"plan-{name}"

    def __enter__(self) -> str:
        if self._job is not None:
            self._rig.register({**self._job, "ID": self._job_id})
            self._rig.wait_for(
                f"/v1/job/{self._job_id}/allocations",
                lambda found: (
                    sum(each["ClientStatus"] == "running" for each in found) >= self._running
                ),
            )
        return self._job_id

    def __exit__(self, *error: object) -> None:
        self._rig.http.delete(f"/v1/job/{self._job_id}", params={"purge": "true"})


def _plan(rig: ServerRig, job: dict[str, Any]) -> dict[str, Any]:
    answer = rig.http.put(f"/v1/job/{job['ID']}/plan", json={"Job": job, "Diff": True})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())
