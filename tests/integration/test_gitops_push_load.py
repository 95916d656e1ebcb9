"""Pushes of several clients beside rounds of the source, hand changes and changes of the leader."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.gitops_push_load import run_load


def test_no_acknowledged_push_is_lost_beside_rounds_and_changes(tmp_path: Path) -> None:
    assert asyncio.run(run_load(tmp_path, 20))["lost"] == 0


@pytest.mark.long
@pytest.mark.timeout(600)
def test_none_of_three_hundred_pushes_is_lost(
    tmp_path: Path,
) -> None:
    found = asyncio.run(run_load(tmp_path, 300))
    assert found["lost"] == 0
    assert found["refused_as_behind"] > 10
    assert found["disturbances"] > 10
