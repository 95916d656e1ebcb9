"""Every recorded case of the scheduler and of the plan applier, exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.run_golden import SEEDS, load, problems

_GOLDEN = Path(__file__).resolve().parents[2] / "golden"
_FILES = [
    file
    for kind in ("scheduler", "scheduler-families", "plan")
    for file in sorted(_GOLDEN.glob(f"{kind}/*.json"))
]


@pytest.mark.parametrize("file", _FILES, ids=lambda file: file.stem)
def test_recorded_case(file: Path) -> None:
    case = load(file)
    assert [problem for seed in SEEDS for problem in problems(case, seed)] == []
