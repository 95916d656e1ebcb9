"""`NAME=value` lines of a rendered template, which become variables of the task."""

from __future__ import annotations

import re

from orchgit.errors import InvalidInputError

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=(.*)", re.DOTALL)


def parse_variables(text: str) -> dict[str, str]:
    """`NAME=value` lines; blank ones and comments are skipped, quotes around a value removed."""
    variables = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.fullmatch(stripped)
        if match is None:
            raise InvalidInputError(
                f"cannot read the template's variables: line {number} is not NAME=value"
            )
        variables[match[1]] = _unquoted(match[2].strip())
    return variables


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == "'":
        return value[1:-1]
    if len(value) >= 2 and value[0] == value[-1] == '"':
        inner = value[1:-1]
        return inner.replace(r"\n", "\n").replace(r"\"", '"').replace("\\\\", "\\")
    return value.partition(" #")[0].rstrip()
