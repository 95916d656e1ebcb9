"""512-bit numbers, conversion and unification."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobspec.evaluation import numbers
from jobspec.evaluation.values import ConvertError, List, SetOf, convert, equal, type_of, unify
from jobspec.hcl.graphemes import grapheme_count, graphemes
from orchgit.durations import DurationError, parse_ns, to_text

FRACTIONS = st.fractions(min_value=-(10**12), max_value=10**12, max_denominator=10**9)


@settings(max_examples=60, deadline=None)
@given(FRACTIONS)
def test_text_of_a_number_reads_back_the_same(value: Fraction) -> None:
    number = numbers.normalize(value)
    text = numbers.to_text(number)
    assert "e" not in text.lower()
    assert numbers.parse(text) == number


@settings(max_examples=60, deadline=None)
@given(FRACTIONS, FRACTIONS)
def test_arithmetic_rounds_the_exact_result(left: Fraction, right: Fraction) -> None:
    a, b = numbers.normalize(left), numbers.normalize(right)
    assert numbers.add(a, b) == numbers.normalize(Fraction(a) + Fraction(b))
    if b:
        exact = Fraction(a) / Fraction(b)
        error = abs(Fraction(numbers.divide(a, b)) - exact)
        assert error <= abs(exact) / 2**511


def test_halves_are_rounded_to_even() -> None:
    assert numbers.normalize(2**512 + 1) == 2**512
    assert numbers.normalize(2**512 + 3) == 2**512 + 4


def test_decimal_fractions_add_up_as_written() -> None:
    third = numbers.parse("0.3")
    assert numbers.add(numbers.parse("0.1") or 0, numbers.parse("0.2") or 0) == third
    assert len(numbers.to_text(numbers.divide(1, 3))) == 157


@pytest.mark.parametrize("text", ["", " 1", "0x10", "1_0", "one", "--1", "1e999999999"])
def test_text_that_is_no_number_is_refused(text: str) -> None:
    assert numbers.parse(text) is None


@pytest.mark.parametrize(
    ("types", "result"),
    [
        (["string", "number"], "string"),
        (["bool", "number"], None),
        ([("tuple", ("number",)), ("tuple", ("string",))], ("tuple", ("string",))),
        ([("tuple", ("number",)), ("tuple", ())], ("list", "number")),
        ([("object", (("a", "number"),)), ("object", ())], ("map", "number")),
        ([("list", "number"), ("tuple", ("string",))], ("list", "string")),
        ([("tuple", ()), "string"], None),
        (["dynamic", "number"], "number"),
    ],
)
def test_unify(types: list[object], result: object) -> None:
    assert unify(types) == result


def test_values_of_different_types_are_not_equal() -> None:
    assert not equal("1", 1)
    assert not equal(True, 1)
    assert not equal(List("string", ["a"]), ("a",))
    assert equal(List("string", ["a"]), List("string", ["a"]))


def test_conversion_to_a_set_sorts_and_drops_repeats() -> None:
    made = convert(("b", "a", "b", 1), ("set", "string"))
    assert isinstance(made, SetOf)
    assert made.items == ["1", "a", "b"]
    with pytest.raises(ConvertError):
        convert("a", ("set", "string"))
    with pytest.raises(ConvertError, match="required"):
        convert({"a": 1}, ("object", (("b", "string"),)))


def test_type_of_nested_values() -> None:
    assert type_of({"b": (1, "x"), "a": True}) == (
        "object",
        (("a", "bool"), ("b", ("tuple", ("number", "string")))),
    )


@pytest.mark.parametrize(
    ("text", "value_ns"),
    [
        ("1h30m", 5_400_000_000_000),
        ("-5s", -5_000_000_000),
        ("1.5h", 5_400_000_000_000),
        ("3us", 3_000),
        ("0", 0),
        ("100ms", 100_000_000),
    ],
)
def test_durations(text: str, value_ns: int) -> None:
    assert parse_ns(text) == value_ns
    assert parse_ns(to_text(value_ns)) == value_ns


def test_each_part_of_a_duration_is_cut_to_nanoseconds() -> None:
    assert parse_ns("1.5ns0.5ns") == 1
    assert parse_ns("9223372036.854775807s.5ns") == (1 << 63) - 1


@pytest.mark.parametrize("text", ["2d", "10", "5 seconds", "", "s", "1h1", "9999999h"])
def test_text_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(DurationError):
        parse_ns(text)


def test_graphemes() -> None:
    assert grapheme_count("e\u0301") == 1
    assert graphemes("a👨\u200d👩\u200d👧b") == ["a", "👨\u200d👩\u200d👧", "b"]
    assert grapheme_count("🇵🇱🇩🇪") == 2
    assert grapheme_count("a\r\nb") == 3
