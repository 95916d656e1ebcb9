"""Which sources depend on which: cycles are found and spelled out."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchgit.errors import InvalidInputError
from orchgit.model.source import Source
from orchgit.services.gitops.source_order import check_depends_on, dependency_cycle


def test_cycle_is_spelled_out() -> None:
    others = {"base": ["net"], "net": ["web", "dns"], "dns": []}
    assert dependency_cycle("web", ["base"], others) == ["web", "base", "net", "web"]
    assert dependency_cycle("web", ["dns", "missing"], others) == []
    assert dependency_cycle("web", ["web"], others) == ["web", "web"]


@pytest.mark.parametrize(
    ("depends_on", "expected"),
    [
        (["base"], "sources would wait for each other: web -> base -> web"),
        (["Base!"], '"Base!" in depends_on is no name of a source'),
        ([f"s{n}" for n in range(101)], "more than 100 sources"),
    ],
)
def test_settings_that_cannot_hold_are_refused(depends_on: list[str], expected: str) -> None:
    others = [Source(name="base", depends_on=["web"])]
    with pytest.raises(InvalidInputError, match=expected):
        check_depends_on(Source(name="web", depends_on=depends_on), others)


def test_source_may_depend_on_one_that_is_not_there_yet() -> None:
    check_depends_on(Source(name="web", depends_on=["base"]), [])


names = st.sampled_from("abcdef")


@given(names, st.dictionaries(names, st.lists(names, max_size=3)))
def test_cycle_is_a_way_along_dependencies(name: str, edges: dict[str, list[str]]) -> None:
    found = dependency_cycle(name, edges.get(name, []), edges)
    if found:
        assert found[0] == found[-1] == name
        assert all(b in edges[a] for a, b in itertools.pairwise(found))
    else:
        reached: set[str] = set()
        waiting = list(edges.get(name, []))
        while waiting:
            current = waiting.pop()
            if current not in reached:
                reached.add(current)
                waiting += edges.get(current, [])
        assert name not in reached
