"""Artifacts of real tasks, as the real Nomad's tasks had them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.run_artifacts import (
    DIFFERENCES,
    GOLDEN,
    Place,
    place_of_the_recordings,
    run_case,
    server_script,
)

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
"""The recorded file server is run as it was, and leaves closing to the collector."""

CASES = sorted((GOLDEN / "artifact").glob("*.json"))
DIFFERENT = {
    "git_into_existing_dir": "git into the task's own directory works",
    "http_404": "a failed download leaves no files",
    "subdir_file": "a download of nothing is an error",
}
FROM_NOMAD = Path(__file__).parents[2] / "docs" / "from-nomad.md"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    root = tmp_path_factory.mktemp("artifacts")
    with place_of_the_recordings(root, server_script(GOLDEN / "artifact")) as place:
        yield place


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_task_gets_the_recorded_files(place: Place, path: Path) -> None:
    result = run_case(place, json.loads(path.read_text()))
    assert result.problems == []
    assert result.difference == DIFFERENT.get(path.stem, "")


def test_documentation_lists_every_difference() -> None:
    section = FROM_NOMAD.read_text().partition("## Artifacts")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(DIFFERENCES) == len(rows) + 1  # links that are made, and those that lead out
