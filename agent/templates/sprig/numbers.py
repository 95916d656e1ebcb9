"""Sprig's functions of numbers."""

from __future__ import annotations

import math
import random
import re
import sys
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from functools import reduce
from typing import Any

from agent.templates.helpers.numbers import go_divide, go_modulo, wrapped
from agent.templates.sprig.values import to_float, to_int, to_text
from orchgit.errors import InvalidInputError
from orchgit.go_numbers import parse_int
from orchgit.go_templates.functions import ANY, GoFunction, any_fn, fn, text_fn
from orchgit.go_templates.values import Int64, Ints

_MOST = 1_000_000
_OCTAL = re.compile(r"[+-]?[0-7]+", re.ASCII)


def _steps(start: int, stop: int, step: int) -> Ints:
    if step == 0 or (stop - start) * step < 0:
        return Ints()
    if abs((stop - start) // step) > _MOST:
        raise InvalidInputError(f"over {_MOST} numbers")
    return Ints(range(start, stop, step))


def _sequence(*bounds: int) -> str:
    """As the program seq: its last number is in it."""
    match bounds:
        case [end]:
            start, step = 1, 1 if end >= 1 else -1
        case [start, end]:
            step = 1 if end >= start else -1
        case [start, step, end]:
            if (end > start) != (step > 0):
                return ""
        case _:
            return ""
    return " ".join(map(str, _steps(start, end + (1 if step > 0 else -1), step)))


_DIVISION_DIGITS = 700
"""The largest number divided by the smallest, with 16 digits after the point."""


def _decimal(value: Any) -> Decimal:
    try:
        return Decimal(repr(to_float(value)))
    except InvalidOperation:
        return Decimal(0)


def _chained(work: Any) -> Any:
    """A function of at least one number with a fraction."""

    def calculate(*values: Any) -> float:
        return float(reduce(work, map(_decimal, values))) + 0.0  # never -0

    return fn(calculate, ANY, rest=ANY)


def _divided(first: Decimal, second: Decimal) -> Decimal:
    if not second:
        raise InvalidInputError("decimal division by 0")
    with localcontext(prec=_DIVISION_DIGITS):
        return (first / second).quantize(Decimal(10) ** -16, ROUND_HALF_UP)


def _rounded(value: Any, digits: int, half: float = 0.5, *_: float) -> float:
    if digits > sys.float_info.max_10_exp:
        return math.nan
    scale = 10.0**digits
    whole = to_float(value) * scale
    if not math.isfinite(whole):
        return whole / scale
    part = math.fmod(whole, 1)
    result = math.ceil(whole) if part >= half else math.floor(whole)
    return result / scale


def _whole(work: Callable[[float], int], value: float) -> float:
    """Returns a whole number with the sign of the value, also where it is zero."""
    return math.copysign(work(value), value) if math.isfinite(value) else value


def _octal(value: Any) -> Int64:
    text = to_text(value)
    return Int64(int(text, 8) if _OCTAL.fullmatch(text) else 0)


def _random(low: int, high: int) -> int:
    if high <= low:
        raise InvalidInputError("invalid argument to Intn")
    return random.randrange(low, high)  # noqa: S311 - no secret


def _atoi(text: str) -> int:
    try:
        return parse_int(text)
    except InvalidInputError:
        return 0


NUMBERS: dict[str, GoFunction] = {
    "atoi": text_fn(_atoi),
    "int64": any_fn(lambda value: Int64(to_int(value))),
    "int": any_fn(to_int),
    "float64": any_fn(to_float),
    "seq": fn(_sequence, rest="int"),
    "toDecimal": any_fn(_octal),
    "until": fn(lambda count: _steps(0, count, 1 if count >= 0 else -1), "int"),
    "untilStep": fn(_steps, "int", "int", "int"),
    "add1": any_fn(lambda value: wrapped(to_int(value) + 1)),
    "add": fn(lambda *values: wrapped(sum(map(to_int, values))), rest=ANY),
    "sub": any_fn(lambda first, second: wrapped(to_int(first) - to_int(second)), 2),
    "div": any_fn(lambda first, second: wrapped(go_divide(to_int(first), to_int(second))), 2),
    "mod": any_fn(lambda first, second: wrapped(go_modulo(to_int(first), to_int(second))), 2),
    "mul": fn(
        lambda *values: wrapped(math.prod(map(to_int, values))),
        ANY,
        rest=ANY,
    ),
    "randInt": fn(_random, "int", "int"),
    "add1f": any_fn(lambda value: float(_decimal(value) + 1)),
    "addf": fn(lambda *values: float(sum(map(_decimal, values))) + 0.0, rest=ANY),
    "subf": _chained(lambda first, second: first - second),
    "divf": _chained(_divided),
    "mulf": _chained(lambda first, second: first * second),
    "biggest": fn(lambda *values: Int64(max(map(to_int, values))), ANY, rest=ANY),
    "max": fn(lambda *values: Int64(max(map(to_int, values))), ANY, rest=ANY),
    "min": fn(lambda *values: Int64(min(map(to_int, values))), ANY, rest=ANY),
    "maxf": fn(lambda *values: max(map(to_float, values)), ANY, rest=ANY),
    "minf": fn(lambda *values: min(map(to_float, values)), ANY, rest=ANY),
    "ceil": any_fn(lambda value: _whole(math.ceil, to_float(value))),
    "floor": any_fn(lambda value: _whole(math.floor, to_float(value))),
    "round": fn(_rounded, ANY, "int", rest="float64"),
}
