"""RE2 patterns on Python's `re`: what RE2 refuses is refused, `$1` and `${name}` expand.

Also used by the server's rules, for constraints with `regexp`.
"""

from __future__ import annotations

import re
import warnings
from functools import lru_cache

from jobspec.functions.signature import Function, FunctionError, check_length, text

_UNSUPPORTED = re.compile(r"\(\?(?:=|!|<=|<!|>|\(|#)|\(\?P=|\(\?<[=!]")
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7f",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_TRANSLATE = re.compile(r"\\.|\[:\^?(\w+):\]|\(\?<([A-Za-z_]\w*)>|\[\^?\]?", re.DOTALL)
_LONG_TEMPLATE = 1000
_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+)|(\$))")
_FLAGS_INSIDE = re.compile(r"\(\?([imsU]+)\)")


class PatternError(ValueError):
    """The pattern is not RE2; the message is what RE2's users know."""


@lru_cache(maxsize=256)
def compile_re2(pattern: str) -> re.Pattern[str]:
    """The pattern as RE2 would read it; raises PatternError."""
    bad = _UNSUPPORTED.search(_without_escapes(pattern))
    if bad is not None:
        raise PatternError(f"error parsing regexp: invalid or unsupported Perl syntax: `{bad[0]}`")
    if re.search(r"(?<!\\)(?:\\\\)*\\[1-9]", pattern):
        raise PatternError("error parsing regexp: invalid escape sequence: a back-reference")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(_to_python(pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(_re2_message(pattern, error)) from None


def replace(value: str, pattern: str, template: str) -> str:
    try:
        compiled = compile_re2(pattern)
    except PatternError as error:
        raise FunctionError(str(error)) from None

    if len(template) > _LONG_TEMPLATE:
        check_length(len(template) * (len(compiled.findall(value)) + 1))

    def expand(m: re.Match[str]) -> str:
        return _REFERENCE.sub(lambda ref: _group(m, ref), template)

    return compiled.sub(expand, value)


def _group(m: re.Match[str], ref: re.Match[str]) -> str:
    if ref[3]:
        return "$"
    name = ref[1] or ref[2]
    if name.isdecimal():
        index = int(name)
        return (m[index] or "") if index <= (m.re.groups or 0) else ""
    return (m[name] or "") if name in m.re.groupindex else ""


def _without_escapes(pattern: str) -> str:
    return re.sub(r"\\.", "  ", pattern, flags=re.DOTALL)


def _to_python(pattern: str) -> str:
    def translate(m: re.Match[str]) -> str:
        part = m[0]
        if m[1]:
            inside = _POSIX.get(m[1], "")
            return inside
        if m[2]:
            return f"(?P<{m[2]}>"
        if part == "\\z":
            return "\\Z"
        if part in ("\\Q", "\\E"):
            return ""
        return part

    flags = "".join(_FLAGS_INSIDE.findall(pattern)).replace("U", "")
    body = _TRANSLATE.sub(translate, _FLAGS_INSIDE.sub("", pattern))
    body = re.sub(r"\$(?=$|\))", r"\\Z", body) if "m" not in flags else body
    return f"(?{''.join(sorted(set(flags)))}){body}" if flags else body


def _re2_message(pattern: str, error: Exception) -> str:
    text = str(error)
    if "unterminated character set" in text:
        return f"error parsing regexp: missing closing ]: `{pattern[_position(error) :]}`"
    if "missing ), unterminated" in text:
        return f"error parsing regexp: missing closing ): `{pattern}`"
    if "unbalanced parenthesis" in text:
        return f"error parsing regexp: unexpected ): `{pattern}`"
    if "nothing to repeat" in text or "multiple repeat" in text:
        operator = pattern[_position(error) :][:1]
        return f"error parsing regexp: missing argument to repetition operator: `{operator}`"
    return f"error parsing regexp: {text}: `{pattern}`"


def _position(error: Exception) -> int:
    return getattr(error, "pos", 0) or 0


FUNCTIONS = {"regex_replace": Function(replace, (text(), text("pattern"), text("replace")))}
