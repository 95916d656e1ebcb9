"""JSON as Go's encoder prints it, so that `job run -output` can be compared byte for byte.

It differs from Python's in three ways: `<`, `>`, `&` and the two line separators are escaped, other
text stays as it is, and numbers use an exponent only below 1e-6 and from 1e21 on
(https://pkg.go.dev/encoding/json#Marshal).
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

_INDENT = "    "
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
_SORTED_MAPS = frozenset(("Volumes",))
"""Maps of the API whose keys are names; the spec keeps the file's order."""


def dumps(value: Any) -> str:
    """Returns `value` (what `json.loads` may return) with an indentation of four spaces."""
    return _text(value, "")


def _text(value: Any, margin: str) -> str:
    match value:
        case dict() if value:
            inner = margin + _INDENT
            fields = (
                f"{inner}{_string(name)}: {_text(_ordered(name, each), inner)}"
                for name, each in value.items()
            )
            return "{\n" + ",\n".join(fields) + f"\n{margin}}}"
        case list() | tuple() if value:
            inner = margin + _INDENT
            return "[\n" + ",\n".join(inner + _text(each, inner) for each in value) + f"\n{margin}]"
        case str():
            return _string(value)
        case float():
            return _number(value)
    return json.dumps(value)


def _ordered(name: str, value: Any) -> Any:
    if name in _SORTED_MAPS and isinstance(value, dict):
        return dict(sorted(value.items()))
    return value


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).translate(_ESCAPES)


def _number(number: float) -> str:
    """Returns the shortest digits that read back as the same number."""
    if number == 0:
        return "-0" if str(number).startswith("-") else "0"
    exact = Decimal(repr(number))
    if 1e-6 <= abs(number) < 1e21:
        plain = format(exact, "f")
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    digits, exponent = f"{exact:e}".split("e")
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    sign = exponent[0]
    return f"{digits}e{sign}{exponent[1:].rjust(2, '0') if sign == '+' else exponent[1:]}"
