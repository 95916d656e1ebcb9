"""Recorded templates and their changes, on a whole server and agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.run_templates import failures

GOLDEN = Path(__file__).parent.parent / "golden/agent"

pytestmark = pytest.mark.long


@pytest.mark.parametrize("kind", ["template", "change_mode"])
def test_templates_become_what_they_became_on_nomad(kind: str) -> None:
    assert failures(GOLDEN / kind) == 0
