"""Numbers in text are read as Go's strconv reads them; the answers are those of Go 1.26."""

from __future__ import annotations

import math

import pytest

from orchgit.errors import InvalidInputError
from orchgit.go_numbers import parse_bool, parse_float, parse_int, parse_uint
from tests.support.cpu_time import least_cpu_s


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-0", 0),
        ("+7", 7),
        ("007", 7),
        ("0_7", 7),
        ("0x_1F", 31),
        ("0o17", 15),
        ("-0b101", -5),
        ("1_000", 1000),
        ("9223372036854775807", (1 << 63) - 1),
        ("-9223372036854775808", -(1 << 63)),
        ("0" * 500 + "7", 7),
    ],
)
def test_whole_number_of_any_base(text: str, number: int) -> None:
    assert parse_int(text, 0) == number


@pytest.mark.parametrize("text", ["", "-", "1__0", "_1", "1_", "0x", "0b2", "08", " 1", "٣", "1.0"])
def test_text_that_is_no_whole_number_is_refused_with_its_name(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"strconv\.ParseInt: parsing .*: invalid syntax"):
        parse_int(text, 0)


def test_number_beyond_64_bits_is_out_of_range() -> None:
    for parse, text in (
        (parse_int, "9223372036854775808"),
        (parse_int, "9" * 100_000),
        (parse_uint, "18446744073709551616"),
        (parse_float, "1e400"),
        (parse_float, "0x1p99999"),
    ):
        with pytest.raises(InvalidInputError, match="value out of range"):
            parse(text)


def test_decimal_number_has_no_prefix_and_no_underscore() -> None:
    assert parse_int("010") == 10
    for text in ("0x10", "1_0"):
        with pytest.raises(InvalidInputError, match="invalid syntax"):
            parse_int(text)
    with pytest.raises(InvalidInputError, match=r"ParseUint.*invalid syntax"):
        parse_uint("-1")


@pytest.mark.parametrize(
    ("text", "number"),
    [("1.", 1.0), (".5e1", 5.0), ("0x1.8p0", 1.5), ("1_5", 15.0), ("-Inf", -math.inf), ("+2", 2.0)],
)
def test_float(text: str, number: float) -> None:
    assert parse_float(text) == number


@pytest.mark.parametrize("text", ["", ".", "1e", "0x1.8", "-nan", " 1", "1.5f", "1__5", "٣"])
def test_text_that_is_no_float_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match=r"strconv\.ParseFloat: parsing .*: invalid syntax"):
        parse_float(text)


def test_nan_has_no_sign() -> None:
    assert math.isnan(parse_float("NaN"))


def test_truth_values() -> None:
    assert [parse_bool(text) for text in ("1", "T", "true", "False", "f")] == [1, 1, 1, 0, 0]
    with pytest.raises(InvalidInputError, match=r'strconv\.ParseBool: parsing "yes"'):
        parse_bool("yes")


@pytest.mark.parametrize("text", ["1" * 200_000 + "x", "1_" * 100_000 + "x", "0x" + "f" * 200_000])
def test_long_text_is_refused_in_time_that_grows_with_its_length(text: str) -> None:
    def refused() -> None:
        with pytest.raises(InvalidInputError, match="invalid syntax"):
            parse_float(text)

    assert least_cpu_s(refused) < 1.0
