"""Numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from jobspec.evaluation.numbers import Number, normalize, to_float
from jobspec.evaluation.values import Value
from jobspec.functions.signature import ArgumentError, Function, FunctionError, any_value, num

_MOST_DIGITS = 500
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def from_float(value: float) -> Number:
    """A double as the number of its shortest decimal form, which is what is printed of it."""
    return value if math.isinf(value) else normalize(Fraction(repr(value)))


def _log(value: Number, base: Number) -> Number:
    if value == 0 or base == 0:
        return -math.inf if base != 0 else 0
    if value < 0 or base < 0:
        raise FunctionError("the logarithm of a negative number is not a number")
    bottom = math.log(to_float(base))
    if bottom == 0:
        if value == 1:
            raise FunctionError("the result is not a number")
        return math.inf if value > 1 else -math.inf
    return from_float(math.log(to_float(value)) / bottom)


def _pow(value: Number, power: Number) -> Number:
    try:
        return from_float(math.pow(to_float(value), to_float(power)))
    except OverflowError:
        return math.inf
    except ValueError:
        if value == 0:
            return math.inf
        raise FunctionError("the result is not a number") from None


def _extreme(choose: Callable[[tuple[Number, ...]], Number]) -> Function:
    def run(*values: Number) -> Number:
        if not values:
            raise FunctionError("must pass at least one number")
        return choose(values)

    return Function(run, rest=num("numbers"))


def _parseint(value: Value, base: Number) -> Number:
    if not isinstance(value, str):
        raise ArgumentError(0, "first argument must be a string")
    if type(base) is not int or not 2 <= base <= 62:
        raise ArgumentError(1, "base must be a whole number between 2 and 62 inclusive")
    text = value
    if len(text) > _MOST_DIGITS:
        raise ArgumentError(0, f"more than {_MOST_DIGITS} digits are not supported")
    sign, digits = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    result = 0
    for digit in digits if base > 36 else digits.lower():
        place = _DIGITS.find(digit)
        if not 0 <= place < base:
            break
        result = result * base + place
    else:
        if digits:
            return sign * result
    raise ArgumentError(0, f'cannot parse "{text}" as a base {base} integer')


def _signum(value: Number) -> Number:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise FunctionError(f"value must be a whole number, between {-(2**63)} and {2**63 - 1}")
    return (value > 0) - (value < 0)


FUNCTIONS = {
    "abs": Function(abs, (num(),)),
    # infinities are floats and stay
    "ceil": Function(lambda n: n if isinstance(n, float) else math.ceil(n), (num(),)),
    "floor": Function(lambda n: n if isinstance(n, float) else math.floor(n), (num(),)),
    "log": Function(_log, (num(), num("base"))),
    "max": _extreme(max),
    "min": _extreme(min),
    "parseint": Function(_parseint, (any_value("number"), num("base"))),
    "pow": Function(_pow, (num(), num("power"))),
    "signum": Function(_signum, (num(),)),
}
