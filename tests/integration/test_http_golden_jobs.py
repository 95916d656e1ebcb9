"""Parsing and validating over HTTP gives what was recorded from Nomad's own endpoints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobspec.parse import parse_job
from tests.support.server_rig import ServerRig, server_rig

GOLDEN = Path(__file__).parents[1] / "golden/jobspec"
VALIDATED = sorted(path.stem for path in (GOLDEN / "validate").glob("*.json"))
CANONICAL = sorted(path.stem for path in (GOLDEN / "canonical").glob("*.json"))


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    with server_rig(tmp_path_factory.mktemp("golden-jobs"), with_agent=False) as started:
        yield started


@pytest.mark.parametrize("name", CANONICAL)
def test_parse_request_canonicalizes_as_recorded(rig: ServerRig, name: str) -> None:
    body = {"JobHCL": (GOLDEN / f"{name}.nomad.hcl").read_text(), "Canonicalize": True}
    values = GOLDEN / f"{name}.vars.hcl"
    if values.exists():
        body["Variables"] = values.read_text()
    answer = rig.http.post("/v1/jobs/parse", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json() == json.loads((GOLDEN / "canonical" / f"{name}.json").read_text())


@pytest.mark.parametrize("name", VALIDATED)
def test_validate_request_answers_as_recorded(rig: ServerRig, name: str) -> None:
    recorded = json.loads((GOLDEN / "validate" / f"{name}.json").read_text())
    text = (GOLDEN / "validate" / f"{name}.nomad.hcl").read_bytes()
    job = parse_job(text, filename=f"{name}.nomad.hcl").spec
    answer = rig.http.put("/v1/validate/job", json={"Job": job})
    assert answer.status_code == recorded["api_status"], answer.text
    for key in ("Error", "ValidationErrors", "Warnings"):
        assert (answer.json()[key] or None) == (recorded["api"][key] or None)
