"""Printing values as Go's package fmt does: `print`, `println`, `printf` and the output itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any

from orchgit.errors import InvalidInputError
from orchgit.go_quote import quote
from orchgit.go_templates.values import (
    INVALID,
    GoChannel,
    GoStruct,
    NamedInt,
    is_nil,
    sorted_keys,
    stringer_text,
    to_bytes,
    type_name,
)

_MOST_WIDTH = 10_000
_MOST_DIGITS = 1_000
_PLAIN_EXPONENTS = range(-4, 6)
"""Of `%g` with the fewest digits; beyond them it prints an exponent."""


def text_of(value: object) -> str:
    """A value as an action of a template prints it."""
    if value is None or value is INVALID:
        return "<no value>"
    text = formatted(value)
    return text.removeprefix("&") if isinstance(value, GoStruct) else text


def formatted(value: object, plus: bool = False, sharp: bool = False, quoted: bool = False) -> str:
    """A value as `%v` (`plus`: `%+v`, `sharp`: `%#v`) prints it; `quoted`: its strings as `%q`."""
    if value is None or value is INVALID:
        return "interface {}(nil)" if sharp else "<nil>"
    if isinstance(value, str):
        return quote(value) if sharp or quoted else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, NamedInt) and not sharp:
        return value.go_text()
    if isinstance(value, int):
        return hex(value) if sharp and type_name(value) in ("uint8", "uint64") else str(int(value))

    def inner(each: object) -> str:
        return formatted(each, plus, sharp, quoted)

    if isinstance(value, list):
        if sharp and is_nil(value):
            return f"{type_name(value)}(nil)"
        parts = [inner(each) for each in value]
        return f"{type_name(value)}{{{', '.join(parts)}}}" if sharp else f"[{' '.join(parts)}]"
    if isinstance(value, Mapping):
        pairs = [f"{inner(key)}:{inner(value[key])}" for key in sorted_keys(value)]
        return f"{type_name(value)}{{{', '.join(pairs)}}}" if sharp else f"map[{' '.join(pairs)}]"
    if isinstance(value, GoStruct):
        return _struct_text(value, inner, plus, sharp)
    if isinstance(value, GoChannel):
        return "0xc000000000"
    return "0x0" if callable(value) else str(value)


def _struct_text(value: GoStruct, inner: Callable[[object], str], plus: bool, sharp: bool) -> str:
    text = value.go_text()
    if text is not None and not sharp:
        return text
    named = [
        f"{name}:{inner(each)}" if plus or sharp else inner(each)
        for name, each in value.go_fields().items()
    ]
    pointer = "&" if value.go_type.startswith("*") else ""
    if sharp:
        return f"{pointer}{value.go_type.lstrip('*')}{{{', '.join(named)}}}"
    return f"{pointer}{{{' '.join(named)}}}"


def float_text(value: float, verb: str = "g", digits: int | None = None) -> str:
    """A float64 as `strconv.FormatFloat` gives it; `digits` None: the fewest that suffice."""
    if math.isinf(value) or math.isnan(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    if verb in "xX":
        text = _hexadecimal(value, digits)
        return text.upper() if verb == "X" else text
    if verb == "b":
        whole, power = _parts(value)
        return f"{whole}p{power:+d}"
    if digits is not None:
        return f"{value:.{digits}{verb}}"
    mantissa, exponent = shortest(value)
    if verb == "f" or (verb in "gG" and exponent in _PLAIN_EXPONENTS):
        return _plain(value)
    sign = "-" if exponent < 0 else "+"
    mark = "E" if verb in "EG" else "e"
    return f"{mantissa}{mark}{sign}{abs(exponent):02d}"


def shortest(value: float) -> tuple[str, int]:
    """(mantissa with one digit before its point, exponent) of the fewest digits that give
    `value`."""
    text = repr(value)
    digits, _, power = text.partition("e")
    sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    whole, _, part = digits.partition(".")
    all_digits = (whole + part).lstrip("0")
    exponent = int(power or 0) + len(whole) - 1
    if not all_digits:
        return f"{sign}0", 0
    if whole == "0":
        exponent = int(power or 0) - (len(part) - len(part.lstrip("0"))) - 1
    all_digits = all_digits.rstrip("0") or "0"
    rest = f".{all_digits[1:]}" if len(all_digits) > 1 else ""
    return f"{sign}{all_digits[0]}{rest}", exponent


def _parts(value: float) -> tuple[int, int]:
    """Returns (mantissa of 53 bits, exponent) of `value` as it is stored."""
    part, exponent = math.frexp(value)
    exponent = max(exponent - 53, -1074)
    return int(math.ldexp(value, -exponent)) if part else 0, exponent if part else -1074


def _hexadecimal(value: float, digits: int | None) -> str:
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    part, exponent = math.frexp(abs(value))
    mantissa, exponent = int(part * (1 << 53)), exponent - 1 if part else 0
    if digits is not None and digits < 13:
        unit = 1 << (52 - 4 * digits)
        units, rest = divmod(mantissa, unit)
        mantissa = (units + (2 * rest > unit or (2 * rest == unit and units % 2))) * unit
        if mantissa >= 1 << 53:
            mantissa, exponent = mantissa >> 1, exponent + 1
    shown = f"{mantissa & ((1 << 52) - 1):013x}"
    shown = shown.rstrip("0") if digits is None else shown.ljust(digits, "0")[:digits]
    point = f".{shown}" if shown else ""
    return f"{sign}0x{mantissa >> 52}{point}p{exponent:+03d}"


def _plain(value: float) -> str:
    mantissa, exponent = shortest(value)
    sign, mantissa = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    digits = mantissa.replace(".", "")
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    digits = digits.ljust(exponent + 1, "0")
    part = digits[exponent + 1 :]
    return f"{sign}{digits[: exponent + 1]}{'.' + part if part else ''}"


def sprint(values: Sequence[object]) -> str:
    """Blanks stand between values of which neither is a string."""
    parts: list[str] = []
    for position, value in enumerate(values):
        if position and not isinstance(value, str) and not isinstance(values[position - 1], str):
            parts.append(" ")
        parts.append(formatted(value))
    return "".join(parts)


def sprintln(values: Sequence[object]) -> str:
    return " ".join(formatted(value) for value in values) + "\n"


def sprintf(pattern: str, arguments: Sequence[object]) -> str:
    return _Printf(pattern, arguments).text()


class _Printf:
    """One call of `printf`."""

    def __init__(self, pattern: str, arguments: Sequence[object]) -> None:
        self._pattern = pattern
        self._arguments = arguments
        self._at = 0
        self._next = 0
        self._reordered = False
        self._good_index = True

    def text(self) -> str:
        parts: list[str] = []
        while self._at < len(self._pattern):
            start = self._pattern.find("%", self._at)
            if start < 0:
                parts.append(self._pattern[self._at :])
                break
            parts.append(self._pattern[self._at : start])
            self._at = start + 1
            parts.append(self._directive())
        if not self._reordered and self._next < len(self._arguments):
            rest = [
                "<nil>" if value is None else f"{type_name(value)}={formatted(value)}"
                for value in self._arguments[self._next :]
            ]
            parts.append(f"%!(EXTRA {', '.join(rest)})")
        return "".join(parts)

    def _directive(self) -> str:
        flags = ""
        self._good_index = True
        while self._peek() and self._peek() in "#0+- ":
            flags += self._take()
        self._argument_number()
        notes, width = self._number("BADWIDTH")
        if width is not None and width < 0:
            flags, width = f"{flags}-", -width
        digits: int | None = None
        if self._peek() == ".":
            self._take()
            self._argument_number()
            more, digits = self._number("BADPREC")
            notes += more
            digits = 0 if digits is None and not more else digits
        if (width or 0) > _MOST_WIDTH or (digits or 0) > _MOST_DIGITS:
            raise InvalidInputError(
                f"a width of printf is at most {_MOST_WIDTH}, and a precision {_MOST_DIGITS}"
            )
        self._argument_number()
        verb = self._take()
        if not verb:
            return f"{notes}%!(NOVERB)"
        if verb == "%":
            return f"{notes}%"
        if not self._good_index:
            return f"{notes}%!{verb}(BADINDEX)"
        if self._next >= len(self._arguments):
            return f"{notes}%!{verb}(MISSING)"
        value = self._arguments[self._next]
        self._next += 1
        return notes + _Directive(flags, width, digits, verb).of(value)

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self) -> str:
        self._at += 1
        return self._pattern[self._at - 1 : self._at]

    def _number(self, bad: str) -> tuple[str, int | None]:
        """(note about a bad one, number) of a width or a precision."""
        if self._peek() == "*":
            self._take()
            if self._next >= len(self._arguments):
                return f"%!({bad})", None
            value = self._arguments[self._next]
            self._next += 1
            if not isinstance(value, int) or isinstance(value, bool):
                return f"%!({bad})", None
            return "", int(value)
        start = self._at
        while is_digits(self._peek()):
            self._take()
        text = self._pattern[start : self._at]
        return "", int(text[:9]) if text else None

    def _argument_number(self) -> None:
        """`[2]` before a verb, a width or a precision."""
        if self._peek() != "[":
            return
        end = self._pattern.find("]", self._at)
        self._reordered = True
        number = self._pattern[self._at + 1 : end] if end > 0 else ""
        self._at = end + 1 if end > 0 else self._at + 1
        if is_digits(number) and 1 <= int(number[:9]) <= len(self._arguments):
            self._next = int(number[:9]) - 1
        else:
            self._good_index = False


def is_digits(text: str) -> bool:
    """Whether the text has digits of ASCII alone: others are no numbers in Go."""
    return text.isascii() and text.isdigit()


class _Directive:
    """One verb with its flags."""

    def __init__(self, flags: str, width: int | None, digits: int | None, verb: str) -> None:
        self._minus = "-" in flags
        self._plus = "+" in flags and verb != "v"
        self._has_names = "+" in flags and verb == "v"
        self._sharp = "#" in flags
        self._space = " " in flags
        self._zero = "0" in flags and not self._minus
        self._width = width or 0
        self._digits = digits
        self._verb = verb

    def of(self, value: object) -> str:
        verb = self._verb
        if verb == "T":
            return self._padded("<nil>" if value is None else type_name(value))
        if value is INVALID or value is None:
            return self._padded("<nil>") if verb == "v" else f"%!{verb}(<nil>)"
        if verb in "vsxXq" and not self._sharp:
            text = stringer_text(value)
            if text is not None:
                return self._string(text)
        if verb == "v":
            return self._value(value)
        if isinstance(value, bool):
            return self._padded(formatted(value)) if verb == "t" else self._bad(value)
        if isinstance(value, int):
            return self._integer(int(value), value)
        if isinstance(value, float):
            return self._float(value)
        if isinstance(value, str):
            return self._string(value)
        if isinstance(value, list):
            return f"[{' '.join(map(self._inner, value))}]"
        if isinstance(value, Mapping):
            return self._map(value)
        if isinstance(value, GoStruct):
            return f"{{{' '.join(map(self._inner, value.go_fields().values()))}}}"
        return self._bad(value)

    def _map(self, value: Mapping[Any, object]) -> str:
        pairs = [f"{self._inner(key)}:{self._inner(value[key])}" for key in sorted_keys(value)]
        return f"map[{' '.join(pairs)}]"

    def _inner(self, value: object) -> str:
        """Returns an element of a list or map: nil is no bad value there."""
        return "<nil>" if value is None or value is INVALID else self.of(value)

    def _value(self, value: object) -> str:
        if isinstance(value, bool | str) or not isinstance(value, int | float):
            if isinstance(value, list) and not self._sharp:
                return f"[{' '.join(map(self._inner, value))}]"
            if isinstance(value, Mapping) and not self._sharp and not self._has_names:
                return self._map(value)
            text = formatted(value, self._has_names, self._sharp)
            is_text = isinstance(value, str) and not self._sharp
            return self._padded(text[: self._digits] if is_text else text)
        if isinstance(value, float):
            return self._signed(float_text(value, "g", self._digits))
        if self._sharp:
            return self._padded(formatted(value, sharp=True))
        sign, number = ("-", formatted(value)[1:]) if value < 0 else ("", formatted(value))
        return self._signed(sign + number.rjust(self._digits or 0, "0"))

    def _integer(self, number: int, value: object) -> str:
        verb = self._verb
        forms: dict[str, str] = {"d": "d", "b": "b", "o": "o", "O": "o", "x": "x", "X": "X"}
        if verb in forms:
            text = f"{abs(number):{forms[verb]}}".rjust(self._digits or 0, "0")
            if self._sharp or verb == "O":
                prefix = {"b": "0b", "o": "0", "O": "0o", "x": "0x", "X": "0X"}.get(verb, "")
                text = prefix + text
            return self._signed(f"-{text}" if number < 0 else text)
        if verb == "c":
            return self._padded(chr(number) if 0 <= number < 0x110000 else "\ufffd")
        if verb == "q":
            character = chr(number) if 0 <= number < 0x110000 else "\ufffd"
            quoted = quote(character, ascii_only=self._plus)[1:-1]
            shown = {"'": "\\'", '"': '"'}.get(character, quoted)
            return self._padded(f"'{shown}'")
        if verb == "U":
            shown = f" '{chr(number)}'" if self._sharp else ""
            return self._padded(f"U+{number:04X}{shown}")
        return self._bad(value)

    def _float(self, value: float) -> str:
        verb = self._verb
        if verb not in "eEfFgGxXb":
            return self._bad(value)
        plain = verb.replace("F", "f")
        default = None if plain in "gGxXb" else 6
        return self._signed(
            float_text(value, plain, default if self._digits is None else self._digits)
        )

    def _string(self, text: str) -> str:
        verb = self._verb
        if verb in "sv":
            return self._padded(text if self._digits is None else text[: self._digits])
        if verb == "q":
            if self._sharp and "`" not in text and text.isprintable():
                return self._padded(f"`{text}`")
            return self._padded(quote(text, ascii_only=self._plus))
        if verb in "xX":
            data = to_bytes(text)[: self._digits]
            shown = data.hex(" ") if self._space else data.hex()
            shown = f"0x{shown}" if self._sharp and data else shown
            return self._padded(shown.upper() if verb == "X" else shown)
        return self._bad(text)

    def _bad(self, value: object) -> str:
        shown = copy(self)  # by its own flags, as `v` would
        shown._verb = "v"
        return f"%!{self._verb}({type_name(value)}={shown.of(value)})"

    def _signed(self, text: str) -> str:
        sign = ""
        if text[:1] in "+-":
            sign, text = text[0], text[1:]
        if sign != "-":
            sign = "+" if self._plus or text == "Inf" else " " if self._space else ""
        missing = self._width - len(sign) - len(text)
        if self._zero and missing > 0 and text not in ("Inf", "NaN"):
            return sign + "0" * missing + text
        return self._padded(sign + text)

    def _padded(self, text: str) -> str:
        if self._minus:
            return text.ljust(self._width)
        return text.rjust(self._width, "0" if self._zero else " ")


def is_printable(value: object) -> bool:
    """Whether an action may print the value."""
    return not callable(value) and type_name(value) != "<-chan int64"
