"""Which texts and trees hold a whole number of at most 64 bits."""

from __future__ import annotations

from typing import Any

import pytest

from orchgit.whole_number import MOST, settle_numbers, too_large_at, whole_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        ("-12", -12),
        (str(MOST), MOST),
        ("0" * 5000 + "1", 1),
        (str(MOST + 1), None),
        ("9" * 5000, None),
        ("", None),
        ("-", None),
        ("+1", None),
        ("1_000", None),
        (" 1", None),
        ("1.0", None),
        ("١٢", None),
        ("²", None),
    ],
)
def test_only_ascii_digits_of_64_bits_are_a_number(text: str, number: int | None) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize(
    ("tree", "place"),
    [
        ({"a": [1, {"b": MOST + 1}]}, ".a[1].b"),
        ({"a": -MOST - 2}, ".a"),
        (MOST + 1, ""),
        ({"Tasks": [{"Config": {"args": [MOST + 1]}}]}, None),
        ({"a": [1, {"b": MOST}], "c": "9" * 40, "d": True, "e": 1e300}, None),
    ],
)
def test_number_beyond_64_bits_is_located_by_its_path(tree: Any, place: str | None) -> None:
    assert too_large_at(tree) == place
    assert settle_numbers(tree) == (place is None)


def test_driver_numbers_beyond_64_bits_become_floats() -> None:
    tree = {"Count": 3, "Tasks": [{"Config": {"a": [1, {"b": MOST + 193}], "c": 10**400}}]}
    assert settle_numbers(tree)
    assert tree == {
        "Count": 3,
        "Tasks": [{"Config": {"a": [1, {"b": 9.223372036854776e18}], "c": float("inf")}}],
    }
