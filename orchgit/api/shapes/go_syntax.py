"""Reads JSON, and says what is wrong with it as Go's encoding/json does."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from orchgit.errors import InvalidInputError
from orchgit.go_quote import quote
from orchgit.whole_number import too_large_at

_BLANK = re.compile(rb"[ \t\r\n]*+")
_PLAIN = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
"""What a text in quotes may hold, up to its end or its first fault."""
_LONG_NUMBER = re.compile(rb"\d{19}")
_DIGITS = re.compile(rb"[0-9]*+")
_MOST_NESTED = 10_000
_MOST_SCANNED_BYTES = 1 << 16
"""Of larger texts the decoder's own words tell the fault: looking twice holds up the server."""
_LITERALS = {b"t": "true", b"f": "false", b"n": "null"}
_VALUE = "looking for beginning of value"
_KEY = "looking for beginning of object key string"
_CUT = "unexpected EOF"


def decode(data: bytes) -> Any:
    """Reads JSON. Raises InvalidInputError in Go's words, and for numbers beyond 64 bits."""
    try:
        value = msgspec.json.decode(data)
    except UnicodeDecodeError as error:
        raise InvalidInputError("cannot read the request body: it is not UTF-8") from error
    except msgspec.DecodeError as error:
        problem = syntax_problem(data) if len(data) <= _MOST_SCANNED_BYTES else None
        if problem is None and "truncated" in str(error):
            problem = _CUT
        told = problem or f"cannot read the request body as JSON: {error}"
        raise InvalidInputError(told) from error
    if _LONG_NUMBER.search(data) and (large := too_large_at(value)) is not None:
        raise InvalidInputError(
            f"cannot read the request body: the number at ${large} is beyond 64 bits"
        )
    return value


def syntax_problem(data: bytes) -> str | None:
    """Returns what Go says of a text that is not JSON; None if it is."""
    try:
        _Scanner(data).scan()
    except _SyntaxError as problem:
        return str(problem)
    return None


class _SyntaxError(Exception):
    """The first fault of a text, in Go's words."""


class _Scanner:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def scan(self) -> None:
        """Reads one value and what may follow it. Raises _SyntaxError."""
        if not self._next():
            raise _SyntaxError("EOF")
        closers: list[bytes] = []  # of the objects and arrays that are open
        while True:
            if self._begins_value(closers):
                continue
            if self._ends_values(closers):
                return

    def _begins_value(self, closers: list[bytes]) -> bool:
        """Reads a scalar whole, of an object or array its beginning; returns whether a value must
        follow."""
        first = self._next()
        if first == b"{":
            self._open(closers, b"}")
            if self._next() == b"}":
                return False
            self._key()
            return True
        if first == b"[":
            self._open(closers, b"]")
            return self._next() != b"]"
        if first == b'"':
            self._text()
        elif first in _LITERALS:
            name = _LITERALS[first]
            for wanted in name:
                if self._here() != wanted.encode():
                    raise self._invalid(f"in literal {name} (expecting '{wanted}')")
                self._at += 1
        elif first == b"-" or first.isdigit():
            self._number()
        else:
            raise self._invalid(_VALUE)
        return False

    def _ends_values(self, closers: list[bytes]) -> bool:
        """Reads what follows a value; returns whether it was the last."""
        while closers:
            following = self._next()
            if following == closers[-1]:
                self._at += 1
                closers.pop()
            elif following == b",":
                self._at += 1
                if closers[-1] == b"}":
                    self._key()
                return False
            else:
                where = "object key:value pair" if closers[-1] == b"}" else "array element"
                raise self._invalid(f"after {where}")
        if self._next():
            raise self._invalid("after top-level value")
        return True

    def _open(self, closers: list[bytes], closer: bytes) -> None:
        self._at += 1
        closers.append(closer)
        if len(closers) > _MOST_NESTED:
            raise _SyntaxError("exceeded max depth")

    def _key(self) -> None:
        if self._next() != b'"':
            raise self._invalid(_KEY)
        self._text()
        if self._next() != b":":
            raise self._invalid("after object key")
        self._at += 1

    def _text(self) -> None:
        self._at = _PLAIN.match(self._data, self._at + 1).end()  # type: ignore[union-attr]
        here = self._here()
        if here == b"\\":
            self._at += 1
            if self._here() != b"u":
                raise self._invalid("in string escape code")
            self._at += 1
            while re.fullmatch(rb"[0-9a-fA-F]", self._here()):
                self._at += 1
            raise self._invalid("in \\u hexadecimal character escape")
        if here != b'"':
            raise self._invalid("in string literal")
        self._at += 1

    def _number(self) -> None:
        if self._here() == b"-":
            self._at += 1
        if self._here() == b"0":
            self._at += 1
        else:
            self._digits("in numeric literal")
        if self._here() == b".":
            self._at += 1
            self._digits("after decimal point in numeric literal")
        if self._here() in (b"e", b"E"):
            self._at += 1
            if self._here() in (b"+", b"-"):
                self._at += 1
            self._digits("in exponent of numeric literal")

    def _digits(self, where: str) -> None:
        if not self._here().isdigit():
            raise self._invalid(where)
        self._at = _DIGITS.match(self._data, self._at).end()  # type: ignore[union-attr]

    def _next(self) -> bytes:
        """Returns the next character that is not blank, and goes to it; empty at the end."""
        self._at = _BLANK.match(self._data, self._at).end()  # type: ignore[union-attr]
        return self._here()

    def _here(self) -> bytes:
        return self._data[self._at : self._at + 1]

    def _invalid(self, where: str) -> _SyntaxError:
        found = self._here()
        if not found:
            return _SyntaxError(_CUT)
        shown = {b"'": "\\'", b'"': '"'}.get(found) or quote(found.decode("latin-1"))[1:-1]
        return _SyntaxError(f"invalid character '{shown}' {where}")
