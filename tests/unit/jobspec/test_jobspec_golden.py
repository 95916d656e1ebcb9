"""Every recorded case, one test each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scenarios.run_jobspec_golden import at, cases

ROOT = Path(__file__).resolve().parents[2] / "golden" / "jobspec"


@pytest.mark.parametrize(("name", "run"), [pytest.param(n, r, id=n) for n, r in cases(ROOT)])
def test_recorded_case(name: str, run: Callable[[], str | None]) -> None:
    with at(ROOT):
        assert run() is None
