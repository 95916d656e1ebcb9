"""kill -9 of the leader while it applies commits in stages: each is whole, the last is reached."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.support.trial_programs import run_in_process

killed = partial(run_in_process, "tests.support.gitops_kill_trials")


@pytest.mark.timeout(120)
def test_no_commit_is_half_applied_or_lost_when_the_leader_is_killed(tmp_path: Path) -> None:
    assert killed(tmp_path, 4, seed=1)["last_push_reached"]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_fifty_kills_hit_pushes_and_stages(tmp_path: Path) -> None:
    found = killed(tmp_path, 50, seed=20_260_101)
    assert found["last_push_reached"]
    assert found["kills_between_stages"] > 5
    assert found["applied_though_not_acknowledged"] > 5
