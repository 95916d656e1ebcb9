"""Every recorded request against a real server and agent: the answer's status and shape."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compat.golden_answers import ON_PURPOSE, answer_differences
from tests.compat.golden_fixtures import Fixtures
from tests.support.server_rig import server_rig

ANSWERS = Path(__file__).parents[1] / "golden" / "http" / "answers.json"
CHECKS: dict[str, dict[str, Any]] = json.loads(ANSWERS.read_text())["checks"]


@pytest.fixture(scope="module")
def fixtures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fixtures]:
    with server_rig(tmp_path_factory.mktemp("golden")) as rig:
        yield Fixtures(rig)


@pytest.mark.parametrize("name", sorted(CHECKS.keys() - ON_PURPOSE))
def test_answer_equals_the_recorded_one(name: str, fixtures: Fixtures) -> None:
    found = answer_differences(name, CHECKS[name], fixtures)
    assert not found, "\n".join(found)
