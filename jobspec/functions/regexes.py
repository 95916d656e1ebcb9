"""Regular expressions in RE2's syntax, and in time linear in the text, whoever wrote the pattern.

The only module that imports google-re2. Also used by the server's rules, for constraints with
`regexp`; `$1` and `${name}` expand in replacements.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import re2

from jobspec.functions.signature import Function, FunctionError, check_length, text

_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+)|(\$))")
_LONG_TEMPLATE = 1000
_WORDS = (
    ("missing ]: ", "missing closing ]: "),
    ("missing ): ", "missing closing ): "),
    ("invalid perl operator: ", "invalid or unsupported Perl syntax: "),
    ("bad repetition operator: ", "invalid nested repetition operator: "),
    ("no argument for repetition operator: ", "missing argument to repetition operator: "),
    ("invalid repetition size: ", "invalid repeat count: "),
    ("trailing \\", "trailing backslash at end of expression: "),
)
"""What RE2's C++ library says, and what its Go one, whose texts Nomad's users know, says."""


class PatternError(ValueError):
    """The pattern is not RE2; the message is what RE2's users know."""


def _quiet() -> Any:
    options = re2.Options()
    options.log_errors = False
    return options


@lru_cache(maxsize=256)
def compile_re2(pattern: str) -> Any:
    """The compiled pattern; raises PatternError."""
    try:
        return re2.compile(pattern, _quiet())
    except re2.error as error:
        raw = error.args[0] if error.args else b""
        raise PatternError(_go_message(raw.decode() if isinstance(raw, bytes) else raw)) from None


def _go_message(message: str) -> str:
    for ours, theirs in _WORDS:
        if message.startswith(ours):
            message = theirs + message[len(ours) :]
            break
    what, colon, part = message.partition(": ")
    return f"error parsing regexp: {what}: `{part}`" if colon else f"error parsing regexp: {what}"


def replace(value: str, pattern: str, template: str) -> str:
    try:
        compiled = compile_re2(pattern)
    except PatternError as error:
        raise FunctionError(str(error)) from None
    if len(template) > _LONG_TEMPLATE:
        check_length(len(template) * (len(compiled.findall(value)) + 1))
    replaced: str = compiled.sub(lambda m: _expand(m, template), value)
    return replaced


def _expand(m: Any, template: str) -> str:
    return _REFERENCE.sub(lambda reference: _group(m, reference), template)


def _group(m: Any, reference: re.Match[str]) -> str:
    if reference[3]:
        return "$"
    name = reference[1] or reference[2]
    if name.isdecimal():
        index = int(name)
        return (m[index] or "") if index <= m.re.groups else ""
    return (m[name] or "") if name in m.re.groupindex else ""


FUNCTIONS = {"regex_replace": Function(replace, (text(), text("pattern"), text("replace")))}
