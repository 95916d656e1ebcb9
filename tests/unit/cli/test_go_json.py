"""`job run -output` prints what Nomad printed, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobspec.files import CurrentDirectory
from jobspec.parse import parse_job
from orchgit.cli.printing import go_json

GOLDEN = Path(__file__).parents[2] / "golden/jobspec"
CASES = sorted(
    path.name.removesuffix(".nomad.hcl")
    for path in GOLDEN.glob("*.nomad.hcl")
    if path.with_name(path.name.replace(".nomad.hcl", ".json")).exists()
)


@pytest.mark.parametrize("name", CASES)
def test_go_json_equals_the_recorded_output(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN)
    variables, env, files = {}, {}, []
    if (GOLDEN / f"{name}.vars.json").exists():
        given = json.loads((GOLDEN / f"{name}.vars.json").read_text())
        variables = dict(each.split("=", 1) for each in given)
    if (GOLDEN / f"{name}.env.json").exists():
        env = json.loads((GOLDEN / f"{name}.env.json").read_text())
    if (GOLDEN / f"{name}.vars.hcl").exists():
        files = [(f"{name}.vars.hcl", (GOLDEN / f"{name}.vars.hcl").read_bytes())]
    parsed = parse_job(
        (GOLDEN / f"{name}.nomad.hcl").read_bytes(),
        filename=f"{name}.nomad.hcl",
        variables=variables,
        var_files=files,
        env=env,
        files=CurrentDirectory(),
    )
    printed = go_json.dumps({"Job": parsed.spec})
    assert printed.strip() == (GOLDEN / f"{name}.json").read_text().strip()


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (0.1, "0.1"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1.5e300, "1.5e+300"),
        (-2.5, "-2.5"),
    ],
)
def test_numbers_as_go_prints_them(number: float, text: str) -> None:
    assert go_json.dumps(number) == text


def test_signs_that_html_would_read_are_escaped() -> None:
    assert go_json.dumps("<a> & \u2028 é") == '"\\u003ca\\u003e \\u0026 \\u2028 é"'
    assert go_json.dumps({}) == "{}"
    assert go_json.dumps([]) == "[]"
