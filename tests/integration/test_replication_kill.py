"""kill -9 at any moment: what was acknowledged is there, what is there is whole."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orchgit.errors import RefusedError
from tests.support.state import running_state

TRIALS = 20
CHECKED = 5
"""After so many kills the server is started in earnest, and everything looked at."""


def _killed_writer(directory: Path, first: int, after_lines: int) -> list[tuple[int, int]]:
    """Run the writer, kill it after so many acknowledgements; (number, index) of each."""
    command = [sys.executable, "-m", "tests.integration.replication_writer", str(directory)]
    process = subprocess.Popen([*command, str(first)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if len(lines) > after_lines:
            process.send_signal(signal.SIGKILL)
            break
    lines += process.stdout.readlines()
    assert process.wait() == -signal.SIGKILL, "the writer ended by itself"
    process.stdout.close()
    written = (line.split() for line in lines if line.endswith(b"\n") and line != b"started\n")
    return [(int(number), int(index)) for number, index in written]


async def _check(directory: Path, acknowledged: dict[int, int]) -> int:
    """Start on what is left; the number after the last job found."""
    async with running_state(directory) as state:
        with state.store.snapshot() as snapshot:
            jobs = {job.id: job for job in snapshot.jobs()}
            evaluations = {one.id for one in snapshot.evaluations()}
            for number, index in acknowledged.items():
                assert f"job-{number}" in jobs, f"acknowledged job {number} is lost"
                assert jobs[f"job-{number}"].create_index == index
            assert {name.replace("job", "eval") for name in jobs} == evaluations, "half an entry"
    return max((int(name.removeprefix("job-")) for name in jobs), default=-1) + 1


def killed_trials(directory: Path, trials: int, seed: int) -> dict[int, int]:
    """Kill a writer so many times, checking now and then; number -> index of each acknowledged."""
    chance = random.Random(seed)
    acknowledged: dict[int, int] = {}
    first = 0
    for trial in range(1, trials + 1):
        acknowledged.update(_killed_writer(directory, first, chance.randrange(120)))
        if trial % CHECKED == 0 or trial == trials:
            first = asyncio.run(_check(directory, acknowledged))
        else:
            first += 1000
    return acknowledged


@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    assert len(killed_trials(tmp_path, TRIALS, seed=20_260_101)) > TRIALS
    assert (tmp_path / "state" / "snapshot.db").exists(), "kills hit the making of snapshots too"


def test_kill_9_leaves_a_directory_that_two_servers_cannot_share(tmp_path: Path) -> None:
    _killed_writer(tmp_path, 0, 3)

    async def scenario() -> None:
        async with running_state(tmp_path):
            with pytest.raises(RefusedError, match="another server is running"):
                async with running_state(tmp_path):
                    pass

    asyncio.run(scenario())
