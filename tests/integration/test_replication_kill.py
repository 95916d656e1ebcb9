"""kill -9 at any moment: what was acknowledged is there, what is there is whole."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchgit.errors import RefusedError
from tests.support.state import running_state

TRIALS = 50


def killed(directory: Path, trials: int, seed: int) -> dict[str, int]:
    """In a process of its own, which forks."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.support.kill_trials", str(directory)),
            *("--trials", str(trials), "--seed", str(seed)),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.mark.timeout(300)
def test_acknowledged_writes_survive_kill_9(tmp_path: Path) -> None:
    found = killed(tmp_path, TRIALS, seed=20_260_101)
    assert found["acknowledged"] > 10 * TRIALS
    assert found["commits"] > TRIALS
    assert found["snapshot_made"], "kills hit the making of snapshots too"


def test_data_directory_after_kill_9_opens_for_one_server_only(tmp_path: Path) -> None:
    killed(tmp_path, 1, seed=1)

    async def scenario() -> None:
        async with running_state(tmp_path):
            with pytest.raises(RefusedError, match="is running in it"):
                async with running_state(tmp_path):
                    pass

    asyncio.run(scenario())
