"""kill -9 at any moment: what was acknowledged is there, what is there is whole."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from orchgit.errors import RefusedError
from tests.support.state import running_state
from tests.support.trial_programs import run_in_process

TRIALS = 50


killed = partial(run_in_process, "tests.support.kill_trials")


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
