"""Tests of the counts that may not rise."""

from __future__ import annotations

import json
import textwrap

import pytest

from tests.support import ratchet
from tests.support.ratchet import MEASURES, Tree, compare, count_of, figure_of


def tree(**texts: str) -> Tree:
    paths = {"code": "orchgit/code.py", "other": "agent/other.py", "tests": "tests/unit/test_it.py"}
    return Tree.of_texts({paths[key]: textwrap.dedent(text) for key, text in texts.items()})


def count(kind: str, given: Tree) -> int:
    return count_of(MEASURES[kind], list(MEASURES[kind].find(given)))


PEERS = """
class Pool:
    async def fork(self, given: Pool, other: Lake) -> Pool:
        twin = copy(self)
        twin._free = given._free
        again = await self.fork(given, other)
        again._free, Pool()._free
        made = type(self)()
        made._free = other._free
        return twin

    @classmethod
    def open(cls) -> Self:
        pool, lake = cls(), Lake()
        pool = Pool()
        pool._fill(lake._free)
        return pool

def outside(pool: Pool):
    return pool._free
"""
"""Reaches into objects of its own class, and four times into others."""

HELPERS = """
class Door:
    def open(self):
        self._turn()
        self._pull(self._pull)

    def _turn(self):
        return self._grip()

    def _grip(self):
        return self._reach(2)

    def _reach(self, far):
        return self._reach(far - 1) if far else None

    def _pull(self, again):
        return again
"""


@pytest.mark.parametrize(
    ("kind", "expected", "given"),
    [
        ("sleeps", 1, tree(tests="import time\ntime.sleep(0.1)")),
        ("sleeps", 0, tree(tests="import asyncio\nasync def f(): await asyncio.sleep(0)")),
        ("sleeps", 1, tree(tests="subprocess.run(['sleep', '1'])")),
        ("sleeps", 0, tree(code="import time\ntime.sleep(0.1)")),
        ("privates-in-tests", 1, tree(tests="def test(x):\n    assert x._left")),
        ("privates-in-tests", 1, tree(tests="from orchgit.code import _left")),
        ("privates-in-tests", 0, tree(tests="class A:\n    def f(self):\n        self._left = 1")),
        ("privates-in-tests", 0, tree(tests="assert x._replace(a=1).__class__")),
        ("privates-in-code", 1, tree(code="def twin(other):\n    other._free = 1")),
        ("privates-in-code", 4, tree(code=PEERS)),
        ("patches", 1, tree(tests="def test(monkeypatch):\n    monkeypatch.setattr(a, 'b', 1)")),
        ("patches", 1, tree(tests="from unittest.mock import Mock")),
        ("patches", 1, tree(tests="from orchgit import code\ncode.LIMIT = 3")),
        ("single-use", 2, tree(code=HELPERS)),
        ("single-use-short", 2, tree(code=HELPERS)),
        ("chain", 2, tree(code=HELPERS)),
        ("single-use", 0, tree(code="def _twice(): ...\n_twice()\n_twice()")),
        ("single-use", 0, tree(code="def _passed(): ...\nstart(_passed)")),
        (
            "single-use",
            1,
            tree(code="def _far(): ...", other="from orchgit.code import _far\n_far()"),
        ),
        ("parameters", 1, tree(code="def f(a, b, c, d, e, f, g, *, h, i): ...")),
        ("parameters", 0, tree(code="class A:\n    def f(self, a, b, c, d, e, f, g, h): ...")),
        ("star-calls", 1, tree(code="f(*(a, b), c)")),
        ("star-calls", 0, tree(code="f(*key)")),
        ("star-calls", 0, tree(code="def f(*names): ...\nf(*(a, b))")),
        ("star-calls", 0, tree(code="asyncio.gather(*(f(each) for each in found))")),
        ("star-calls", 1, tree(code="class A: ...\nA(*(f(each) for each in found))")),
        ("collisions", 1, tree(code="class Entry: ...", other="class Entry: ...")),
        ("collisions", 0, tree(code="class _Entry: ...", other="class _Entry: ...")),
        (
            "methods",
            3,
            tree(
                code="class A:\n    def a(self): ...\n    def b(self): ...",
                other="from orchgit.code import A\nclass B(A):\n    def b(self): ...\n"
                "    def c(self): ...",
            ),
        ),
    ],
)
def test_each_measure_counts_its_habit_only(kind: str, expected: int, given: Tree) -> None:
    assert count(kind, given) == expected


def test_higher_count_fails_and_names_what_is_new(capsys: pytest.CaptureFixture[str]) -> None:
    figures = dict.fromkeys(MEASURES, 0) | {"methods": 9}
    assert compare(tree(tests="time.sleep(0.25)"), figures, lambda: tree()) == 1
    told = capsys.readouterr()
    assert "time.sleep(0.25)" in told.err
    assert "wait for an index or an event" in told.err
    assert "lower than the figures: methods" in told.out


def test_count_at_its_figure_passes() -> None:
    figures = dict.fromkeys(MEASURES, 0) | {"sleeps": 1}
    assert compare(tree(tests="time.sleep(0.25)"), figures, lambda: None) == 0


def test_new_finding_is_told_from_one_that_moved() -> None:
    before = tree(tests="time.sleep(1)\ntime.sleep(2)")
    now = tree(tests="'moved down'\ntime.sleep(2)\ntime.sleep(2)\ntime.sleep(1)")
    found = list(MEASURES["sleeps"].find(now))
    new = ratchet.new_since(before, MEASURES["sleeps"], found, 2)
    assert [each.name for each in new] == ["time.sleep(2)"]


def test_every_measure_has_a_figure() -> None:
    assert set(json.loads((ratchet.ROOT / ratchet.FIGURES).read_text())) == set(MEASURES)


def test_share_does_not_rise_with_functions_that_lack_the_habit() -> None:
    measure = MEASURES["single-use"]
    small = tree(code="def _far(): ...\ndef near(): return _far()")
    larger = tree(code="def _far(): ...\ndef near(): return _far()\ndef a(): ...\ndef b(): ...")
    assert figure_of(small, measure, list(measure.find(small))) == 5_000
    assert figure_of(larger, measure, list(measure.find(larger))) == 2_500
