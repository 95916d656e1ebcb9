"""Patterns of users mean what RE2 says, everywhere, and take no longer than the text is long."""

from __future__ import annotations

from contextlib import suppress

import pytest

from orchgit.errors import InvalidInputError
from orchgit.filters import parse_filter
from orchgit.gitops.git.globs import matches
from orchgit.regex import MAX_STEPS, PatternError, compile_pattern
from orchgit.scheduler.feasibility.checks import in_datacenters
from orchgit.scheduler.feasibility.operands import holds
from tests.support.cpu_time import least_cpu_s
from tests.support.factories import make_node
from tests.support.hostile.patterns import FILTERS, GLOBS, PATTERNS, VERSIONS

MAX_CPU_S = 1.0
"""The bound is 0.1 s; a machine's processor may be a slow one. Backtracking takes minutes."""


def free(steps: int, characters: int) -> None:
    """Nothing is charged."""


@pytest.mark.parametrize("name", sorted(PATTERNS))
def test_hostile_pattern_takes_a_moment_or_is_refused(name: str) -> None:
    pattern, text = PATTERNS[name]

    def work() -> None:
        with suppress(PatternError):
            compile_pattern(pattern).search(text)
        holds("regexp", text, pattern)

    assert least_cpu_s(work, tries=1) < MAX_CPU_S


@pytest.mark.parametrize("name", sorted(GLOBS))
def test_hostile_glob_takes_a_moment(name: str) -> None:
    glob, path = GLOBS[name]

    def work() -> None:
        assert not matches(path, [glob])
        assert not in_datacenters(make_node(datacenter=path), [glob])

    assert least_cpu_s(work, tries=1) < MAX_CPU_S


@pytest.mark.parametrize("name", sorted(VERSIONS))
def test_hostile_version_takes_a_moment_and_satisfies_nothing(name: str) -> None:
    version, constraint = VERSIONS[name]

    def work() -> None:
        assert not holds("version", version, constraint) or name == "clauses"
        assert not holds("semver", version, constraint) or name == "clauses"
        holds("<", version, version + "1")

    assert least_cpu_s(work, tries=1) < MAX_CPU_S


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_hostile_filter_takes_a_moment_or_is_refused(name: str) -> None:
    def work() -> None:
        with suppress(InvalidInputError):
            wanted = parse_filter(FILTERS[name])
            wanted({"ID": "a" * 10_000, "TaskGroups": [{"Name": "g"}]})

    assert least_cpu_s(work, tries=1) < MAX_CPU_S


@pytest.mark.parametrize(
    ("glob", "datacenter", "fits"),
    [
        ("*", "", True),
        ("dc1", "dc1", True),
        ("dc1", "dc10", False),
        ("dc*", "dc", True),
        ("*dc", "a-dc", True),
        ("a*b*c", "a1b2c", True),
        ("a*b*c", "a1c2b", False),
        ("a*a", "a", False),
        ("ab*ba", "aba", False),
        ("*a*", "xay", True),
        ("**", "x", True),
        ("a.c", "abc", False),
        ("é*", "été", True),
    ],
)
def test_star_in_a_datacenter_stands_for_any_text(glob: str, datacenter: str, fits: bool) -> None:
    assert in_datacenters(make_node(datacenter=datacenter), [glob]) is fits


def test_replacing_expands_groups_as_go_does() -> None:
    pattern = compile_pattern(r"(?P<first>\w+) (\w+)")
    assert pattern.replace("ab cd, ef gh", "$2 ${first}$$$3", free) == "cd ab$, gh ef$"
    assert compile_pattern("x*").replace("axb", "-", free) == "-a-b-"
    assert compile_pattern("é").replace("été", "e", free) == "ete"


def test_text_too_long_for_a_large_pattern_is_refused() -> None:
    pattern = compile_pattern("(a{1,100}){1,10}b")
    assert not pattern.search("a" * 1_000)
    with pytest.raises(PatternError, match="make the expression or the text shorter"):
        pattern.search("a" * MAX_STEPS)


def test_single_byte_of_a_letter_cannot_be_matched() -> None:
    with pytest.raises(PatternError, match=r"invalid escape sequence: `\\C`"):
        compile_pattern(r"a\\\C")
    assert compile_pattern(r"\Q\C\E\\C").search(r"\C\C")
