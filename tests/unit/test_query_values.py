"""Of parameters with the same name the first counts, wherever a query is read."""

from __future__ import annotations

import pytest

from orchgit.query_values import first_values


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("", {}),
        ("a=1&a=2", {"a": "1"}),
        ("a=&a=2", {"a": ""}),
        ("a&a=2", {"a": ""}),
        ("b=2&a=1&b=3", {"b": "2", "a": "1"}),
        ("a=x%20y+z", {"a": "x y z"}),
    ],
)
def test_first_of_repeated_parameters_counts(query: str, values: dict[str, str]) -> None:
    assert first_values(query) == first_values(query.encode()) == values
