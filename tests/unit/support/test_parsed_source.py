"""Parsing goes on while there is garbage whose end is reported with a traceback."""

from __future__ import annotations

import ast
import gc
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.parsed_source import parsed_source


class _EndsBadly:
    """In a cycle, so that only a collection finds it."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        raise ValueError(str(self)[:3] + "it ended")


@pytest.fixture
def eager_collector() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(10, 1, 1)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("eager_collector")
def test_what_a_collection_reports_does_not_break_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As pytest does with what fails in a `__del__`: it formats the traceback, which parses."""
    monkeypatch.setattr(
        sys, "unraisablehook", lambda told: traceback.format_exception(told.exc_value)
    )
    gc.disable()
    for _ in range(5_000):
        _EndsBadly()
    gc.enable()
    assert isinstance(parsed_source(Path(traceback.__file__).read_text()), ast.Module)
    assert gc.isenabled()
    gc.collect()
