"""The real scheduler decides as the texts of `tests/scenarios/scheduler` expect."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.text_scenario import ScenarioError, compare, differences, rewritten

SEEDS = (1, 2, 3)
_DIRECTORY = Path(__file__).parents[2] / "scenarios" / "scheduler"
_FILES = sorted(_DIRECTORY.glob("*.txt"))


@pytest.mark.parametrize("file", _FILES, ids=lambda file: file.stem)
def test_scheduler_decides_as_the_scenario_expects(file: Path) -> None:
    text = file.read_text()
    assert [line for seed in SEEDS for line in differences(text, seed)] == []


@pytest.mark.parametrize("file", _FILES, ids=lambda file: file.stem)
def test_scenario_begins_with_its_rule(file: Path) -> None:
    assert file.read_text().startswith("# ")


SMALL = """# One allocation.
cluster
  node n1
job
  job "web" {
    group "app" {}
  }
event
  the job is registered
expect
  nothing
"""


def test_difference_names_both_sides() -> None:
    assert differences(SMALL, 1) == [
        "line 10: expected, not decided: nothing",
        "line 10: decided, not expected: start deployment: Deployment is running",
        "line 10: decided, not expected: place app[0] on n1",
    ]


def test_rewritten_scenario_holds() -> None:
    assert differences(rewritten(SMALL), 1) == []


def test_any_stands_for_one_node_each() -> None:
    decided = ["place app[0] on n2", "place app[1] on n1"]
    assert compare(["place app[0..1] on any"], decided) == ([], [])
    assert compare(["place app[0] on any"], decided) == ([], ["place app[1] on n1"])


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("event\n  node n1 explodes", "a node does not do: explodes"),
        ("event\n  it rains", "'it rains' is no event"),
        ("running\n  app[0] on n7", "names a job, group or node that there is not"),
        ("weather\n  rain", "a section is one of"),
    ],
)
def test_nonsense_is_refused(line: str, problem: str) -> None:
    with pytest.raises(ScenarioError, match=problem):
        differences(SMALL + line + "\n", 1)
