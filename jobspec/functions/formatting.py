"""`format` and `formatlist`: Go's verbs over HCL's values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from jobspec.evaluation.numbers import Number, shortest_digits
from jobspec.evaluation.values import (
    ConvertError,
    List,
    Value,
    elements,
    is_null,
    to_bool,
    to_number,
    to_string,
    type_of,
)
from jobspec.functions import json_text
from jobspec.functions.signature import (
    ArgumentError,
    CallContext,
    Function,
    FunctionError,
    any_value,
    check_length,
    text,
)
from jobspec.hcl.graphemes import graphemes

_MOST_DIGITS = 2_000
_VERB = re.compile(r"%([ +#0-]*)(\d*)(?:\.(\d*))?(?:\[(\d+)\])?(.)?", re.DOTALL)


def format_values(context: CallContext, template: str, *args: Value) -> str:
    used = 0
    next_arg = 0
    length = len(template)
    out: list[str] = []
    position = 0
    while (at := template.find("%", position)) >= 0:
        out.append(template[position:at])
        verb = _VERB.match(template, at)
        assert verb is not None
        position = verb.end()
        if verb[5] == "%":
            out.append("%")
            continue
        _known(verb, template)
        index = int(verb[4]) - 1 if verb[4] else next_arg
        if index >= len(args) or index < 0:
            raise FunctionError(
                f'not enough arguments for "{verb[0]}" at {at}: '
                f"need index {index + 1} but have {len(args)} total"
            )
        next_arg = index + 1
        used = max(used, next_arg)
        context.budget.charge(1)
        context.budget.walk(args[index])
        out.append(_one(verb, args[index], at))
        length += len(out[-1])
        check_length(length)
    out.append(template[position:])
    if used < len(args) and "[" not in template:
        few = "no arguments are" if used == 0 else f"only {used}"
        raise ArgumentError(used + 1, f"too many arguments; {few} used by format string")
    return "".join(out)


def format_list(context: CallContext, template: str, args: Sequence[Value]) -> list[str]:
    """One result per item of the lists among the arguments, which must be of one length."""
    length: int | None = None
    first = 0
    columns: list[Sequence[Value] | None] = []
    for index, arg in enumerate(args):
        items = None if is_null(arg) else elements(arg)
        columns.append(items)
        if items is None:
            continue
        if length is None:
            length, first = len(items), index
        elif len(items) != length:
            raise ArgumentError(
                index + 1,
                f"argument {index + 1} has length {len(items)}, which is inconsistent with "
                f"argument {first + 1} of length {length}",
            )
    rows = 1 if length is None else length
    results = []
    for row in range(rows):
        values = [arg if c is None else c[row] for arg, c in zip(args, columns, strict=True)]
        try:
            result = format_values(context, template, *values)
            context.budget.charge(1 + len(values), len(result))
            results.append(result)
        except FunctionError as error:
            raise FunctionError(f"error on format iteration {row}: {error}") from None
    return results


def _known(verb: re.Match[str], template: str) -> None:
    letter = verb[5]
    if letter is None:
        raise FunctionError("unterminated verb at end of string")
    if letter not in "vtbdoxXeEfgGsq":
        raise FunctionError(f"unrecognized format character {letter!r} at offset {verb.start(5)}")


def _one(verb: re.Match[str], value: Value, at: int) -> str:
    try:
        return _format(verb, value)
    except (ConvertError, ValueError) as error:
        raise FunctionError(f'unsupported value for "{verb[0]}" at {at}: {error}') from None


def _format(verb: re.Match[str], value: Value) -> str:
    letter, flags = verb[5], verb[1]
    width = int(verb[2][:9]) if verb[2] else 0
    check_length(width)
    precision = int(verb[3][:9] or 0) if verb[3] is not None else None
    if precision is not None and precision > _MOST_DIGITS:
        raise ConvertError(f"more than {_MOST_DIGITS} digits are not supported")
    if letter == "v":
        if "#" in flags or is_null(value) or type_of(value) not in ("string", "number", "bool"):
            return _pad(json_text.encode(value), flags, width)
        letter = {"string": "s", "number": "g", "bool": "t"}[type_of(value)]
    if is_null(value):
        raise ConvertError("null value cannot be formatted")
    if letter in "sq":
        return _string(letter, to_string(value), flags, width, precision)
    if letter == "t":
        return _pad(to_string(to_bool(value)), flags.replace("0", ""), width)
    number = to_number(value)
    if letter in "bdoxX":
        return _integer(letter, number, flags, width)
    return _pad_number(_float(letter, number, precision, flags), flags, width)


def _string(letter: str, text: str, flags: str, width: int, precision: int | None) -> str:
    if precision is not None:
        text = "".join(graphemes(text)[:precision])
    if letter == "q":
        text = json_text.quote(text)
    return _pad(text, flags, width)


def _pad(text: str, flags: str, width: int) -> str:
    missing = width - len(graphemes(text)) if width else 0
    if missing <= 0:
        return text
    if "-" in flags:
        return text + " " * missing
    return ("0" if "0" in flags else " ") * missing + text


def _integer(letter: str, number: Number, flags: str, width: int) -> str:
    if type(number) is not int:
        raise ConvertError("an integer is required")
    base = {"b": "b", "d": "d", "o": "o", "x": "x", "X": "X"}[letter]
    digits = format(abs(number), base)
    if "#" in flags and letter in "oxX":
        digits = {"o": "0", "x": "0x", "X": "0X"}[letter] + digits
    return _pad_number(_signed(number < 0, digits, flags), flags, width)


def _signed(negative: bool, digits: str, flags: str) -> str:
    if negative:
        return "-" + digits
    return ("+" if "+" in flags else " " if " " in flags else "") + digits


def _pad_number(text: str, flags: str, width: int) -> str:
    if "0" in flags and "-" not in flags and len(text) < width:
        sign = text[0] if text[0] in "+- " else ""
        return sign + "0" * (width - len(text)) + text[len(sign) :]
    return _pad(text, flags.replace("0", ""), width)


def _float(letter: str, number: Number, precision: int | None, flags: str) -> str:
    if isinstance(number, float):
        return "-Inf" if number < 0 else "+Inf"
    magnitude = abs(Fraction(number))
    if letter in "eE":
        digits, exponent = _digits(magnitude, 7 if precision is None else precision + 1)
        text = _with_exponent(digits, exponent, letter)
    elif letter == "f":
        text = _fixed(magnitude, 6 if precision is None else precision)
    else:
        text = _shortest(magnitude, precision, "e" if letter == "g" else "E")
    return _signed(number < 0, text, flags)


def _fixed(value: Fraction, places: int) -> str:
    scaled = str(round(value * 10**places)).rjust(places + 1, "0")
    return f"{scaled[:-places]}.{scaled[-places:]}" if places else scaled


def _digits(value: Fraction, count: int) -> tuple[str, int]:
    """`count` significant digits and the decimal exponent of the first."""
    if value == 0:
        return "0" * count, 0
    exponent = len(str(value.numerator)) - len(str(value.denominator))
    if value < Fraction(10) ** exponent:
        exponent -= 1
    text = str(round(value / Fraction(10) ** (exponent - count + 1)))
    if len(text) > count:
        return text[:count], exponent + 1
    return text, exponent


def _with_exponent(digits: str, exponent: int, letter: str) -> str:
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{mantissa}{letter}{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _shortest(value: Fraction, precision: int | None, letter: str) -> str:
    if value == 0:
        return "0"
    if precision is None:
        digits, point = shortest_digits(value)
        exponent, limit = point - 1, 6
    else:
        count = precision or 1
        digits, exponent = _digits(value, count)
        digits = digits.rstrip("0") or "0"
        limit = count
    if exponent < -4 or exponent >= limit:
        return _with_exponent(digits, exponent, letter)
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    if exponent + 1 >= len(digits):
        return digits + "0" * (exponent + 1 - len(digits))
    return f"{digits[: exponent + 1]}.{digits[exponent + 1 :]}"


def _formatlist(context: CallContext, template: str, *args: Value) -> List:
    return List("string", format_list(context, template, args))


FUNCTIONS = {
    "format": Function(format_values, (text("format"),), any_value("args", nullable=True), True),
    "formatlist": Function(_formatlist, (text("format"),), any_value("args", nullable=True), True),
}
