"""Claims, selectors and names of logins, by value."""

from __future__ import annotations

from typing import Any

import pytest

from orchgit.errors import InvalidInputError, RefusedError
from orchgit.services.acl.bindings import interpolated, selects
from orchgit.services.acl.claims import MappedClaims, mapped

ADA = MappedClaims({"user": "ada", "dept": "eng"}, {"groups": ["ops", "all"]})


def test_claims_are_mapped_by_name_and_by_pointer_and_missing_ones_left_out() -> None:
    claims = {"user": "ada", "age": 36, "admin": True, "ratio": 0.5, "org": {"a/b": ["x", "y"]}}
    found = mapped(
        claims,
        {"user": "u", "age": "age", "admin": "admin", "ratio": "r", "no": "n", "/org/a~1b/1": "p"},
        {"/org/a~1b": "l", "user": "single", "none": "n"},
    )
    expected = {"u": "ada", "age": "36", "admin": "true", "r": "0.5", "p": "y"}
    assert found == MappedClaims(expected, {"l": ["x", "y"], "single": ["ada"]})


@pytest.mark.parametrize("value", [{"a": 1}, [["x"]]])
def test_claim_that_is_an_object_is_refused(value: Any) -> None:
    with pytest.raises(RefusedError, match="error converting claim"):
        mapped(
            {"user": value}, {"user": "user"} if isinstance(value, dict) else None, {"user": "l"}
        )


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ('value.user == "ada"', True),
        ('value.user == "eve"', False),
        ('"ops" in list.groups and value.dept != "law"', True),
        ('"law" in list.groups', False),
        ('value.nosuch != "x"', True),
        ('value.nosuch == "x"', False),
        ('user == "ada"', False),
        ("value.user =", False),
    ],
)
def test_selector_sees_values_and_lists(selector: str, matches: bool) -> None:
    assert selects(selector, ADA) is matches


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("${value.dept}-team", "eng-team"),
        ("${ value.user }@${value.dept}", "ada@eng"),
        ("$${value.user}", "${value.user}"),
    ],
)
def test_name_is_interpolated(text: str, expected: str) -> None:
    variables = {"value.dept": "eng", "value.user": "ada"}
    assert interpolated(text, variables) == expected


@pytest.mark.parametrize("text", ["${value.nosuch}", "${nonsense", "${}", "${a b}"])
def test_name_that_cannot_be_computed_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="cannot read"):
        interpolated(text, {"value.user": "ada"})
