"""Recorded lists and bodies, whole, through the runners that take any directory of their kind."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.compat.acl_scenario import acl_rig
from tests.scenarios import run_filters, run_http_golden
from tests.support.golden_steps import Intended, without_intended
from tests.support.recorded_agent import recorded_agent

RECORDED = Path(__file__).parents[1] / "golden" / "api"


@pytest.mark.long
def test_filters_pages_and_list_requests_are_answered_as_recorded(tmp_path: Path) -> None:
    with acl_rig(tmp_path, run_filters.agent_config(tmp_path)) as rig:
        run_filters.FilterScenario(rig.http, str(tmp_path))
        found = run_filters.run(RECORDED / "filters", rig.http)
    assert unwanted(found, run_filters.ON_PURPOSE) == {}


@pytest.mark.long
@pytest.mark.timeout(400)
def test_bodies_are_answered_as_recorded(tmp_path: Path) -> None:
    with recorded_agent(tmp_path) as http:
        found = run_http_golden.run(RECORDED / "bodies", http, str(tmp_path))
    known = (*run_http_golden.ON_PURPOSE, *run_http_golden.MOMENTS)
    assert unwanted(found, known) == {}


def unwanted(found: dict[str, list[str]], known: Iterable[Intended]) -> dict[str, list[str]]:
    left, _ = without_intended(found, known)
    return {name: lines for name, lines in left.items() if lines}
