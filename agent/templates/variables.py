"""`NAME=value` lines of a rendered template, which become variables of the task."""

from __future__ import annotations

import re

from orchgit.errors import InvalidInputError
from orchgit.go_quote import quote

_EXPORT = "export "
_SPACES = " \t\n\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""What Go takes for a space."""
_SHORT = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")


def parse_variables(text: str) -> dict[str, str]:
    """`NAME=value` lines; blank ones and comments are skipped.

    A value may be put together of plain, "quoted" and 'quoted' parts; `#` in a plain part begins a
    comment. Raises InvalidInputError with the line.
    """
    variables = {}
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip(_SPACES)
        if not stripped or stripped.startswith("#"):
            continue
        try:
            name, value = _pair(stripped)
        except InvalidInputError as error:
            raise InvalidInputError(f"error on line {number}: {error}") from None
        variables[name] = value
    return variables


def _pair(line: str) -> tuple[str, str]:
    name, mark, value = line.partition("=")
    if not mark:
        raise InvalidInputError("missing =")
    name = name.rstrip(_SPACES).removeprefix(_EXPORT)
    if not name:
        raise InvalidInputError("empty key")
    first = _byte_of(name[0])
    if not (first.isascii() and (first.isalpha() or first == "_")):
        raise InvalidInputError(f"key must start with [A-Za-z_] but found {_shown(first)}")
    for character in name:
        each = _byte_of(character)
        if not (each.isascii() and (each.isalnum() or each in "/_.")):
            raise InvalidInputError(
                f"key characters must be [A-Za-z0-9/_.] but found {_shown(each)}"
            )
    return name, _value(value.strip(_SPACES))


def _byte_of(character: str) -> str:
    """The first byte of the character, as a character of Latin-1."""
    return chr(character.encode("utf-8", "surrogateescape")[0])


def _shown(character: str) -> str:
    return f"'{quote(character)[1:-1]}'" if character != '"' else "'\"'"


def _value(text: str) -> str:
    parts, at, plain_end = [], 0, 0
    while at < len(text):
        character = text[at]
        if character == "#":
            break
        if character == '"':
            match = _QUOTED.match(text, at)
            if match is None:
                raise InvalidInputError('unmatched "')
            _check(match[1])
            parts.append(_ESCAPE.sub(_unescaped, match[1]))
            at = match.end()
            plain_end = len("".join(parts))
        elif character == "'":
            end = text.find("'", at + 1)
            if end < 0:
                raise InvalidInputError("unmatched '")
            _check(text[at + 1 : end])
            parts.append(text[at + 1 : end])
            at = end + 1
            plain_end = len("".join(parts))
        else:
            _check(character)
            parts.append(character)
            at += 1
    value = "".join(parts)
    return value[:plain_end] + value[plain_end:].rstrip(_SPACES)


def _check(part: str) -> None:
    for character in part:
        if character < " ":
            raise InvalidInputError(f"0x{ord(character):02x} is an invalid value character")


def _unescaped(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    return _SHORT.get(match[2], match[2])
