"""Problems of a job file's text, as the recorded parser words and places them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobspec.errors import Diagnostics, SourceText
from jobspec.hcl.parser import parse_body
from orchgit.api.shapes.hcl_texts import hcl_text

PROBES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "golden" / "jobspec" / "syntax-probes.json").read_text()
)
WRONG = [each for each in PROBES if not each["go_ok"]]
IN_OWN_WORDS = ("Extra characters after interpolation", "Invalid legacy index")


@pytest.mark.parametrize("probe", WRONG, ids=[each["note"] for each in WRONG])
def test_problem_is_worded_and_placed_as_recorded(probe: dict[str, Any]) -> None:
    diagnostics = Diagnostics(SourceText("x.hcl", probe["src"]))
    parse_body(diagnostics.source, diagnostics)
    found = hcl_text([str(diagnostics.found[0])], probe["src"])
    wanted = probe["go_error"].partition(", and ")[0]
    if any(each in wanted for each in IN_OWN_WORDS):
        found, wanted = found.partition(";")[0], wanted.partition(";")[0]
    assert found == wanted


def test_first_of_several_problems_is_shown_with_their_number() -> None:
    problems = ["a.hcl:1:1: Bad: so.", "a.hcl:2:1: Bad: so."]
    assert hcl_text(problems, "x\ny\n") == "a.hcl:1,1-2: Bad; so., and 1 other diagnostic(s)"
