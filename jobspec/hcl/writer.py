"""Writes values as HCL that reads well and that the reader turns into the same value again.

A string may look like a template, or be an interpolation that is left for the client to resolve.
Each way to write a string is evaluated, and the first that gives the string back is taken; so the
result is right whatever the string holds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jobspec.errors import HclError
from jobspec.evaluation.budget import BudgetError
from jobspec.evaluation.evaluate import Scope, evaluate
from jobspec.functions.call import caller
from jobspec.functions.signature import CallContext
from jobspec.hcl.literals import normal
from jobspec.hcl.parser import parse_expression

INDENT = "  "
MAX_LINE = 100
_MARKERS = ("EOT", "EOF", "END", "TEXT", "HEREDOC", "END_OF_TEXT")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPED = re.compile(r'[\\"\n\r\t\x00-\x1f\x7f\u0085\u2028\u2029\ufeff]')
_OPENER = re.compile(r"([$%])\{")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NOT_FOR_HEREDOCS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u0085\u2028\u2029\ufeff]")
_CALLS = caller(CallContext(None))
_OWN_NAMES: dict[str, Any] = {"var": {}, "local": {}}
"""Names that a file resolves itself: an interpolation of them would not stay as it is."""


class UnwritableError(ValueError):
    """HCL has no text for this value."""


def is_name(text: str) -> bool:
    """Whether `text` is a name, which needs no quotes left of `=`."""
    if text.isascii():
        return _NAME.fullmatch(text) is not None
    return (
        text == normal(text) and not text.startswith("-") and text.replace("-", "_").isidentifier()
    )


def quoted(text: str) -> str:
    """A string literal, as labels need it: template openers are doubled."""
    return f'"{_OPENER.sub(_doubled, _escaped(text))}"'


def expression(value: Any, depth: int = 0) -> str:
    """A JSON-like value as an expression that starts on a line indented `depth` steps."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, str):
        return string(value, depth)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UnwritableError("an infinite number has no text")
        return str(int(value)) if value.is_integer() and abs(value) < 1e18 else repr(value)
    if isinstance(value, Mapping):
        return _object(value, depth)
    return _tuple(value, depth)


def attributes(values: Mapping[str, Any], depth: int) -> Iterator[str]:
    """`name = value` lines for names that need no quotes."""
    for name, value in values.items():
        yield f"{INDENT * depth}{name} = {expression(value, depth)}"


def _tuple(values: Sequence[Any], depth: int) -> str:
    if not values:
        return "[]"
    items = [expression(value, depth + 1) for value in values]
    line = f"[{', '.join(items)}]"
    if len(line) + len(INDENT) * depth <= MAX_LINE and "\n" not in line:
        return line
    inside = INDENT * (depth + 1)
    ends = ["\n" if item.startswith("<<") else "" for item in items]
    body = "".join(
        f"{inside}{item}{end and end + inside},\n" for item, end in zip(items, ends, strict=True)
    )
    return f"[\n{body}{INDENT * depth}]"


def _object(values: Mapping[str, Any], depth: int) -> str:
    if not values:
        return "{}"
    inside = INDENT * (depth + 1)
    body = "".join(
        f"{inside}{_key(key)} = {expression(value, depth + 1)}\n" for key, value in values.items()
    )
    return f"{{\n{body}{INDENT * depth}}}"


def _key(key: str) -> str:
    return key if is_name(key) and key not in ("for", "null", "true", "false") else string(key, 0)


# -- strings -----------------------------------------------------------------------------------


def string(text: str, depth: int = 0) -> str:
    """The most readable expression whose value is `text`."""
    if text.isascii() and not ("\n" in text or "{" in text):
        return f'"{_escaped(text)}"'
    for candidate in _candidates(text, depth):
        if _evaluates_to(candidate, text):
            return candidate
    raise UnwritableError("a string that HCL cannot hold")


def _candidates(text: str, depth: int) -> Iterator[str]:
    doubled = _OPENER.sub(_doubled, text)
    versions = dict.fromkeys((text, doubled))
    if "\n" in text and not _NOT_FOR_HEREDOCS.search(text):
        for version in versions:
            yield from _heredocs(version, depth)
    for version in versions:
        yield f'"{_escaped(version)}"'
    yield f'"{_OPENER.sub(_apart, _escaped(text))}"'


def _heredocs(text: str, depth: int) -> Iterator[str]:
    """With its lines indented as the file is, then as they are; chomped where it ends openly."""
    lines = text.removesuffix("\n").split("\n")
    marker = next((each for each in _MARKERS if each not in {line.strip() for line in lines}), None)
    if marker is None or (len(lines) < 2 and len(text) < MAX_LINE // 2):
        return
    ends = text.endswith("\n")
    inside = INDENT * (depth + 1)
    indented = "\n".join(inside + line if line.strip() else line for line in lines)
    for opening, body, closing in (
        (f"<<-{marker}", indented, f"{INDENT * depth}{marker}"),
        (f"<<{marker}", "\n".join(lines), marker),
    ):
        whole = f"{opening}\n{body}\n{closing}"
        yield whole if ends else f"chomp({whole}\n{INDENT * depth})"


def _evaluates_to(candidate: str, text: str) -> bool:
    source = f"{candidate}\n"
    try:
        node = parse_expression(source)
        return bool(evaluate(node, Scope(_OWN_NAMES, source, _CALLS)) == text)
    except (HclError, BudgetError):
        return False


def _escaped(text: str) -> str:
    def escape(m: re.Match[str]) -> str:
        return _ESCAPES.get(m[0]) or f"\\u{ord(m[0]):04x}"

    return _ESCAPED.sub(escape, text)


def _doubled(opener: re.Match[str]) -> str:
    return f"{opener[1]}{opener[0]}"


def _apart(opener: re.Match[str]) -> str:
    """The two signs of an opener, each where it opens nothing."""
    return f'${{"{opener[1]}"}}{{'
