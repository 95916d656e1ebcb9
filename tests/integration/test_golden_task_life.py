"""What becomes of jobs, and where their texts are interpolated, as the real Nomad did it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.scenarios import run_interpolation
from tests.scenarios.run_task_events import AT_ONCE, OWN_WAYS, rig_of_the_recordings, run_case
from tests.support.driver_rigs import exec_works
from tests.support.server_rig import ServerRig

GOLDEN = Path(__file__).parent.parent / "golden" / "agent"
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    with rig_of_the_recordings(tmp_path_factory.mktemp("life")) as rig:
        yield rig


def test_jobs_have_the_recorded_lives(rig: ServerRig) -> None:
    paths = [
        path
        for path in sorted((GOLDEN / "tasklife").glob("*.json"))
        if path.stem not in OWN_WAYS and (exec_works() or "exec" not in path.read_text())
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda path: (path.stem, run_case(rig, path)), paths)
        assert [(name, problems) for name, problems in found if problems] == []


def test_references_are_replaced_where_they_were_recorded(rig: ServerRig) -> None:
    paths = sorted((GOLDEN / "interpolation").glob("*.json"))
    found = [each for path in paths for each in run_interpolation.results(rig, path)]
    assert [(name, problems) for name, problems in found if problems] == []
