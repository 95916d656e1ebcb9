"""Cuts an HCL1 text, or its JSON form, into tokens."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from json.decoder import JSONDecoder

from orchgit.hcl1.tree import Position

_HCL_TOKEN = re.compile(
    r"(?P<space>[ \t\r\n]+|#[^\n]*|//[^\n]*|/\*.*?\*/)"
    r"|(?P<word>[^\W\d][\w.-]*)"
    r"|(?P<number>-?(?:0[xX][0-9a-fA-F]+|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?))"
    r"|(?P<heredoc><<(?P<indented>-?)(?P<anchor>\w+)\r?\n)"
    r'|(?P<string>")'
    r"|(?P<mark>[][{},=.+-])",
    re.DOTALL,
)
_JSON_TOKEN = re.compile(
    r"(?P<space>[ \t\r\n]+)"
    r"|(?P<word>[^\W\d]\w*)"
    r"|(?P<number>-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"
    r'|(?P<string>")'
    r"|(?P<mark>[][{},:])"
)
_MARKS = {
    "{": "LBRACE",
    "}": "RBRACE",
    "[": "LBRACK",
    "]": "RBRACK",
    ",": "COMMA",
    "=": "ASSIGN",
    ".": "PERIOD",
    "+": "ADD",
    "-": "SUB",
    ":": "COLON",
}
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\\"])|([0-7]{3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))"
)
_ESCAPED = dict(zip('abfnrtv\\"', '\a\b\f\n\r\t\v\\"', strict=True))
_STOP = re.compile(r'["\\\n{}]|\$\{')
_MAX_NUMBER_LENGTH = 400
_INT64 = 1 << 63


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is the language's word for it; `ILLEGAL` has the mistake as its text."""

    kind: str
    text: str
    position: Position
    value: str | int | float | bool | None = None


class _BadTokenError(Exception):
    """A token cannot be read; `at` is the offset of the mistake, `end` where reading goes on."""

    def __init__(self, message: str, at: int, end: int) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.end = end


class Scanner:
    """Yields the tokens of a text; the last one is `EOF`."""

    def __init__(self, filename: str, text: str, json: bool) -> None:
        self._filename = filename
        self._text = text
        self._pattern = _JSON_TOKEN if json else _HCL_TOKEN
        self._string: Callable[[int], tuple[str, int]] = (
            self._json_string if json else self._hcl_string
        )
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def tokens(self) -> Iterator[Token]:
        at = 1 if self._text.startswith("\ufeff") else 0
        while at < len(self._text):
            match = self._pattern.match(self._text, at)
            try:
                if match is None:
                    raise _no_token(self._text, at)
                start, at = at, match.end()
                if match.lastgroup != "space":
                    token, at = self._token(match, start)
                    yield token
            except _BadTokenError as error:
                yield Token("ILLEGAL", error.message, self._position(error.at))
                at = error.end
        line = len(self._line_starts)
        # HashiCorp's reader has moved on twice when it reports the end of the text.
        column = len(self._text) - self._line_starts[-1] + 2
        yield Token("EOF", "", Position(self._filename, line, column))

    def _position(self, offset: int) -> Position:
        line = bisect_right(self._line_starts, offset)
        return Position(self._filename, line, offset - self._line_starts[line - 1] + 1)

    def _token(self, match: re.Match[str], start: int) -> tuple[Token, int]:
        position = self._position(start)
        text = match[0]
        match match.lastgroup:
            case "word" if text in ("true", "false"):
                return Token("BOOL", text, position, text == "true"), match.end()
            case "word" if text == "null" and self._pattern is _JSON_TOKEN:
                return Token("NULL", text, position), match.end()
            case "word" if self._pattern is _JSON_TOKEN:
                raise _BadTokenError("illegal char", start, match.end())
            case "word":
                return Token("IDENT", text, position, text), match.end()
            case "number":
                return self._number(text, start, match.end()), match.end()
            case "string":
                value, end = self._string(start)
                return Token("STRING", self._text[start:end], position, value), end
            case "mark":
                return Token(_MARKS[text], text, position), match.end()
            case _:
                value, end = self._heredoc(match)
                return Token("HEREDOC", self._text[start:end], position, value), end

    def _number(self, text: str, start: int, end: int) -> Token:
        position = self._position(start)
        digits = text.lstrip("-")
        if len(text) > _MAX_NUMBER_LENGTH:
            raise _BadTokenError("value out of range", start, end)
        try:
            if digits[:2] in ("0x", "0X"):
                value = int(text, 16)
            elif not digits.isdigit():
                return Token("FLOAT", text, position, float(text))
            else:
                value = int(text, 8 if digits[0] == "0" and len(digits) > 1 else 10)
        except ValueError:
            raise _BadTokenError("illegal octal number", start, end) from None
        if not -_INT64 <= value < _INT64:
            raise _BadTokenError("value out of range", start, end)
        return Token("NUMBER", text, position, value)

    def _json_string(self, start: int) -> tuple[str, int]:
        try:
            value, end = JSONDecoder().raw_decode(self._text, start)
        except ValueError:
            raise self._unterminated(start) from None
        return value, end

    def _hcl_string(self, start: int) -> tuple[str, int]:
        """Reads a quoted string; what stands in `${ }` is kept as it is, newlines included."""
        parts: list[str] = []
        at, braces = start + 1, 0
        while stop := _STOP.search(self._text, at):
            parts.append(self._text[at : stop.start()])
            at, found = stop.end(), stop[0]
            if found == "${":
                braces += 1
            elif braces and found in "{}":
                braces += 1 if found == "{" else -1
            elif not braces and found == "\n":
                break
            elif not braces and found == '"':
                return "".join(parts), at
            elif found == "\\":
                escape = _ESCAPE.match(self._text, at - 1)
                if escape is None:
                    raise _BadTokenError("illegal char escape", at, self._end_of_line(at))
                at = escape.end()
                number = escape[2] or escape[3] or escape[4] or escape[5]
                code = int(number, 8 if escape[2] else 16) if number else ord(_ESCAPED[escape[1]])
                if code > 0x10FFFF or 0xD800 <= code < 0xE000:
                    raise _BadTokenError("illegal char escape", at, self._end_of_line(at))
                parts.append(escape[0] if braces else chr(code))
                continue
            parts.append(found)
        raise self._unterminated(start)

    def _unterminated(self, start: int) -> _BadTokenError:
        end = self._end_of_line(start)
        return _BadTokenError("literal not terminated", end, end)

    def _end_of_line(self, at: int) -> int:
        end = self._text.find("\n", at)
        return len(self._text) if end < 0 else end

    def _heredoc(self, match: re.Match[str]) -> tuple[str, int]:
        begin = match.end()
        closing = re.compile(rf"^([ \t]*){re.escape(match['anchor'])}\r?$", re.MULTILINE)
        end = closing.search(self._text, begin)
        if end is None:
            raise _BadTokenError("heredoc not terminated", len(self._text), len(self._text))
        content, indent = self._text[begin : end.start()], end[1]
        lines = content.splitlines(keepends=True)
        if match["indented"] and all(line.startswith(indent) for line in lines):
            content = "".join(line[len(indent) :] for line in lines)
        return content, end.end()


def _no_token(text: str, at: int) -> _BadTokenError:
    """Says why no token begins at the offset."""
    if text.startswith("/*", at):
        return _BadTokenError("comment not terminated", at, len(text))
    if text[at] == "/":
        return _BadTokenError("expected '/' for comment", at, at + 1)
    why = "unexpected null character (0x00)" if text[at] == "\0" else "illegal char"
    return _BadTokenError(why, at, at + 1)
