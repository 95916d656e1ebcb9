"""consul-template's functions of numbers, and Go's sums."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from orchgit.errors import InvalidInputError
from orchgit.go_numbers import parse_bool, parse_float, parse_int, parse_uint
from orchgit.go_templates.functions import ANY, GoFunction, any_fn, fn, is_number, text_fn
from orchgit.go_templates.printing import sprintf
from orchgit.go_templates.values import GoChannel, Int64, Uint64, type_name

_INT64 = 1 << 63
_MOST_ROUNDS = 1_000_000


def wrapped(number: int) -> Int64:
    """The number in 64 bits, as Go's sums have it."""
    return Int64((number + _INT64) % (2 * _INT64) - _INT64)


def named(name: str, work: Callable[[], Any]) -> Any:
    """What `work` gives; its errors begin with the function's name."""
    try:
        return work()
    except InvalidInputError as error:
        raise InvalidInputError(f"{name}: {error}") from None


def _arithmetic(name: str, work: Callable[[Any, Any], Any]) -> GoFunction:
    def calculate(by: Any, value: Any) -> Any:
        for each in (value, by):
            if not is_number(each):
                shown = "<invalid reflect.Value> (<nil>)"
                if each is not None:
                    shown = sprintf("%q (%T)", (each, each))
                raise InvalidInputError(f"{name}: unknown type for {shown}")
        result = work(value, by)
        return float(result) if isinstance(result, float) else wrapped(result)

    return any_fn(calculate, 2)


def go_divide(value: Any, by: Any) -> Any:
    """Whole numbers are cut towards zero."""
    if isinstance(value, float) or isinstance(by, float):
        if by == 0:
            return float("nan") if value == 0 else float("inf") if value > 0 else float("-inf")
        return value / by
    if by == 0:
        raise InvalidInputError("runtime error: integer divide by zero")
    size = abs(value) // abs(by)
    return size if (value < 0) == (by < 0) else -size


def go_modulo(value: Any, by: Any) -> Any:
    if isinstance(value, float) or isinstance(by, float):
        raise InvalidInputError("modulo: only whole numbers have a remainder")
    return value - by * go_divide(value, by)


def _parse_int(text: str) -> Int64:
    if not text:
        return Int64(0)
    return Int64(named("parseInt", lambda: parse_int(text)))


def _parse_uint(text: str) -> Uint64:
    if not text:
        return Uint64(0)
    return Uint64(named("parseUint", lambda: parse_uint(text)))


def _loop(*bounds: Any) -> GoChannel:
    numbers = []
    for bound in bounds:
        if isinstance(bound, str):
            numbers.append(named("parseInt", partial(parse_int, bound)))
        elif isinstance(bound, int) and not isinstance(bound, bool):
            numbers.append(int(bound))
        else:
            raise InvalidInputError(f"loop: bad argument type: {type_name(bound)}")
    if not 1 <= len(numbers) <= 2:
        got = len(numbers)
        raise InvalidInputError(f"loop: wrong number of arguments, expected 1 or 2, but got {got}")
    start, end = numbers if len(numbers) == 2 else (0, numbers[0])
    if end - start > _MOST_ROUNDS:
        raise InvalidInputError(f"loop: over {_MOST_ROUNDS} rounds")
    return GoChannel(range(start, end))


NUMBERS: dict[str, GoFunction] = {
    "add": _arithmetic("add", lambda value, by: value + by),
    "subtract": _arithmetic("subtract", lambda value, by: value - by),
    "multiply": _arithmetic("multiply", lambda value, by: value * by),
    "divide": _arithmetic("divide", go_divide),
    "modulo": _arithmetic("modulo", go_modulo),
    "minimum": _arithmetic("minimum", min),
    "maximum": _arithmetic("maximum", max),
    "loop": fn(_loop, rest=ANY),
    "parseBool": text_fn(
        lambda text: named("parseBool", lambda: parse_bool(text)) if text else False
    ),
    "parseFloat": text_fn(
        lambda text: named("parseFloat", lambda: parse_float(text)) if text else 0.0
    ),
    "parseInt": text_fn(_parse_int),
    "parseUint": text_fn(_parse_uint),
}
