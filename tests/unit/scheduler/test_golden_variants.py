"""Changes that must not matter, made to every recorded case: what is decided stays the same."""

from __future__ import annotations

import pytest

from tests.scenarios.run_golden import problems
from tests.support.golden_neighbours import CASES, FAMILIES, recorded
from tests.support.golden_variants import VARIANTS

_NAMES = sorted(file.stem for kind in (CASES, FAMILIES) for file in kind.glob("*.json"))


@pytest.mark.parametrize("variant", VARIANTS)
def test_decisions_are_the_same(variant: str) -> None:
    found: dict[str, list[str]] = {}
    asked = 0
    for name in _NAMES:
        case = VARIANTS[variant](recorded(name))
        if case is not None:
            asked += 1
            found[name] = problems(case, seed=2)
    assert {name: lines for name, lines in found.items() if lines} == {}
    assert asked > len(_NAMES) / 2
