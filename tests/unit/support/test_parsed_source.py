"""Parsing goes on while there is garbage whose end is reported with a traceback."""

from __future__ import annotations

import ast
import gc
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.parsed_source import parsed_source


class _EndsBadly:
    """In a cycle, so that only a collection finds it; formats a traceback, which parses."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        try:
            raise ValueError(str(self)[:3] + "it ended")
        except ValueError as error:
            traceback.format_exception(error)


@pytest.fixture
def eager_collector() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(10, 1, 1)
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("eager_collector")
def test_report_of_a_collection_does_not_break_parsing() -> None:
    """Pytest formats the traceback of what fails in a `__del__`, which parses as this one does."""
    text = Path(traceback.__file__).read_text()
    gc.disable()
    for _ in range(5_000):
        _EndsBadly()
    gc.enable()
    assert isinstance(parsed_source(text), ast.Module)
    assert gc.isenabled()
    gc.collect()
