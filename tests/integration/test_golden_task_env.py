"""Environments of tasks, as the real Nomad's tasks printed theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.run_task_env import agent_of_the_recordings, problems
from tests.support.driver_rigs import exec_works
from tests.support.server_rig import ServerRig

GOLDEN = Path(__file__).parent.parent / "golden" / "agent" / "env"
CASES = sorted(GOLDEN.glob("*.json"))


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRig]:
    with agent_of_the_recordings(tmp_path_factory.mktemp("env")) as rig:
        yield rig


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_task_prints_the_recorded_environment(rig: ServerRig, path: Path) -> None:
    case = json.loads(path.read_text())
    if path.stem == "driver_exec_user" and not exec_works():
        pytest.skip("needs root and crun or runc")
    assert problems(rig, case) == []
