"""Delays between attempts: they double, are bounded, and spread."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchgit.backoff import backoff_s


@pytest.mark.parametrize(("failures", "delay_s"), [(0, 0.25), (1, 0.5), (3, 2.0), (6, 15.0)])
def test_delay_doubles_up_to_its_bound(failures: int, delay_s: float) -> None:
    assert backoff_s(failures, 0.25, 15.0) == delay_s


@given(st.integers(0, 10_000), st.floats(0, 1))
def test_delay_with_any_spread_grows_and_is_bounded(failures: int, spread: float) -> None:
    delay_s = backoff_s(failures, 0.25, 3600.0, spread)
    assert 0.125 <= delay_s <= 3600.0
    assert delay_s <= backoff_s(failures + 1, 0.25, 3600.0, spread)


def test_spread_shortens_the_delay_by_at_most_half() -> None:
    assert [backoff_s(2, 1.0, 60.0, spread) for spread in (0.0, 0.5, 1.0)] == [2.0, 3.0, 4.0]
