"""HCL's numbers: 512-bit binary floats. An int where whole, else a Fraction; infinity is a float.

Every result is rounded to 512 bits, half to even, which is what makes 0.1 + 0.2 == 0.3 true and
1/3 print 155 digits.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Final

Number = int | Fraction | float

PRECISION_BITS = 512
_SMALL = 1 << PRECISION_BITS
_LONGEST = 4000
_LARGEST_EXPONENT = 10_000
_MOST_BITS = 1 << 17
"""Of a number or its denominator: twice those of the largest that can be written."""
_DECIMAL = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,6})?")


class Null:
    """The absence of a value, of a known type or (`NULL`) of none."""

    __slots__ = ("type",)

    def __init__(self, type_: object) -> None:
        self.type = type_


class NegativeZero(Fraction):
    """Zero with a sign, which is written; it is equal to zero."""

    __slots__ = ()


NULL: Final = Null("dynamic")
NEGATIVE_ZERO: Final = NegativeZero(0)
INFINITY: Final = math.inf


def normalize(value: Number) -> Number:
    """Rounded to the precision, and an int where whole."""
    if type(value) is int:
        return value if -_SMALL < value < _SMALL else _round(Fraction(value))
    if isinstance(value, Fraction):
        return value if value is NEGATIVE_ZERO else _round(value)
    return value


def _round(value: Fraction) -> Number:
    if value.denominator == 1 and -_SMALL < value.numerator < _SMALL:
        return value.numerator
    numerator, denominator = abs(value.numerator), value.denominator
    if (
        max(numerator.bit_length(), denominator.bit_length()) > 2 * _MOST_BITS
        or abs(numerator.bit_length() - denominator.bit_length()) > _MOST_BITS
    ):
        raise OverflowError("the result is too large or too small a number")
    shift = PRECISION_BITS - (numerator.bit_length() - denominator.bit_length())
    scaled = _divide_even(*_shifted(numerator, denominator, shift))
    if scaled.bit_length() > PRECISION_BITS:
        shift -= scaled.bit_length() - PRECISION_BITS
        scaled = _divide_even(*_shifted(numerator, denominator, shift))
    result = Fraction(scaled << -shift if shift < 0 else scaled, 1 << shift if shift > 0 else 1)
    if value < 0:
        result = -result
    return result.numerator if result.denominator == 1 else result


def _shifted(numerator: int, denominator: int, shift: int) -> tuple[int, int]:
    return (numerator << shift, denominator) if shift >= 0 else (numerator, denominator << -shift)


def _divide_even(numerator: int, denominator: int) -> int:
    quotient, rest = divmod(numerator, denominator)
    twice = 2 * rest
    if twice > denominator or (twice == denominator and quotient & 1):
        quotient += 1
    return quotient


def add(left: Number, right: Number) -> Number:
    return normalize(left + right)


def subtract(left: Number, right: Number) -> Number:
    return normalize(left - right)


def multiply(left: Number, right: Number) -> Number:
    if isinstance(left, float) or isinstance(right, float):
        if not left or not right:
            raise ZeroDivisionError("can't multiply zero by infinity")
        return INFINITY if (left > 0) == (right > 0) else -INFINITY
    if not left or not right:
        return _zero(is_negative(left) != is_negative(right))
    return normalize(left * right)


def negate(value: Number) -> Number:
    return -value if value else _zero(not is_negative(value))


def is_negative(value: Number) -> bool:
    return value < 0 or value is NEGATIVE_ZERO


def _zero(negative: bool) -> Number:
    return NEGATIVE_ZERO if negative else 0


def divide(left: Number, right: Number) -> Number:
    if isinstance(left, float) and isinstance(right, float):
        raise ZeroDivisionError("can't divide zero by zero or infinity by infinity")
    if isinstance(right, float):
        return 0
    if right == 0:
        if left == 0:
            raise ZeroDivisionError("can't divide zero by zero or infinity by infinity")
        return INFINITY if left > 0 else -INFINITY
    if isinstance(left, float):
        return left if right > 0 else -left
    if not left:
        return _zero(is_negative(left) != is_negative(right))
    return normalize(Fraction(left) / Fraction(right))


def modulo(left: Number, right: Number) -> Number:
    """What is left after whole divisions towards zero; by zero, the left operand."""
    if right == 0 or isinstance(right, float) or isinstance(left, float):
        return left
    ratio = Fraction(left) / Fraction(right)
    whole = math.floor(ratio) if ratio >= 0 else -math.floor(-ratio)
    return normalize(left - right * whole)


def to_text(value: Number) -> str:
    """Plain decimal, never an exponent, and the fewest digits that read back the same."""
    if type(value) is int:
        return str(value) if -_SMALL < value < _SMALL else _big_int_text(value)
    if isinstance(value, float):
        return "+Inf" if value > 0 else "-Inf"
    if value is NEGATIVE_ZERO:
        return "-0"
    sign = "-" if value < 0 else ""
    digits, exponent = shortest_digits(abs(Fraction(value)))
    if exponent <= 0:
        return f"{sign}0.{'0' * -exponent}{digits}"
    if exponent >= len(digits):
        return f"{sign}{digits}{'0' * (exponent - len(digits))}"
    return f"{sign}{digits[:exponent]}.{digits[exponent:]}"


def _big_int_text(value: int) -> str:
    digits, exponent = shortest_digits(Fraction(abs(value)))
    return f"{'-' if value < 0 else ''}{digits}{'0' * (exponent - len(digits))}"


def shortest_digits(value: Fraction) -> tuple[str, int]:
    """Digits d and exponent e with value ~ 0.d * 10**e, as few digits as identify the value."""
    bits = value.numerator.bit_length() - value.denominator.bit_length()
    exponent = math.floor(bits * math.log10(2)) - 1
    while value >= Fraction(10) ** exponent:
        exponent += 1
    low, high = 1, 160
    while low < high:
        middle = (low + high) // 2
        if _reads_back(value, middle, exponent):
            high = middle
        else:
            low = middle + 1
    scaled = _scaled_digits(value, low, exponent)
    text = str(scaled)
    if len(text) > low:
        exponent += 1
    return text.rstrip("0") or "0", exponent


def _reads_back(value: Fraction, count: int, exponent: int) -> bool:
    scaled = _scaled_digits(value, count, exponent)
    return normalize(Fraction(scaled) * Fraction(10) ** (exponent - count)) == value


def _scaled_digits(value: Fraction, count: int, exponent: int) -> int:
    scaled = value * Fraction(10) ** (count - exponent)
    return _divide_even(scaled.numerator, scaled.denominator)


def to_float(value: Number) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def parse(text: str) -> Number | None:
    """A number written in decimal, as conversions from strings take it; else None."""
    if len(text) > _LONGEST or _DECIMAL.fullmatch(text) is None:
        return None
    exponent = text.lower().partition("e")[2]
    if exponent and abs(int(exponent)) > _LARGEST_EXPONENT:
        return None
    number = Fraction(text)
    return normalize(number) if number else _zero(text.startswith("-"))
