"""The tokens of a template, with their places."""

from __future__ import annotations

import re
from dataclasses import dataclass

from orchgit.go_quote import quote

KEYWORDS = frozenset(
    ("break", "continue", "block", "define", "else", "end", "if", "range", "nil", "template",
     "with")
)  # fmt: skip
_SPACES = " \t\r\n"
_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?(?:[pP][+-]?[0-9_]*)?"
    r"|0[oO][0-7_]*|0[bB][01_]*|[0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9_]*)?)i?"
)


@dataclass(frozen=True, slots=True)
class TemplateToken:
    """`kind` is text, left, right, space, eof, error, char (an operator), or what a word is:
    string, raw, number, rune, bool, field, dot, variable, name, or a keyword itself."""

    kind: str
    text: str
    at: int
    line: int

    def __str__(self) -> str:
        if self.kind == "eof":
            return "EOF"
        if self.kind == "error":
            return self.text
        if self.kind in KEYWORDS:
            return f"<{self.text}>"
        return f"{quote(self.text[:10])}..." if len(self.text) > 10 else quote(self.text)


class Lexer:
    """`tokens` ends with a token of kind eof or error."""

    def __init__(self, text: str, left: str, right: str) -> None:
        self._text = text
        self._left = left
        self._right = right
        self._at = 0
        self._line = 1
        self._counted = 0
        self._parens = 0
        self.tokens: list[TemplateToken] = []

    def run(self) -> list[TemplateToken]:
        text = self._text
        while True:
            start = text.find(self._left, self._at)
            plain = text[self._at :] if start < 0 else text[self._at : start]
            if start >= 0 and self._trims(start + len(self._left)):
                plain = plain.rstrip(_SPACES)
            if plain:
                self._emit("text", plain, self._at)
            if start < 0:
                self._emit("eof", "", len(text))
                return self.tokens
            self._at = start
            if not self._action():
                return self.tokens

    def _trims(self, at: int) -> bool:
        """Whether a trim marker and a blank are there."""
        return self._text[at : at + 1] == "-" and self._text[at + 1 : at + 2] in tuple(_SPACES)

    def _emit(self, kind: str, text: str, at: int) -> bool:
        self._line += self._text.count("\n", self._counted, at)
        self._counted = at
        self.tokens.append(TemplateToken(kind, text, at, self._line))
        return kind != "error"

    def _error(self, message: str, at: int) -> bool:
        return self._emit("error", message, at)

    def _after_right(self, at: int, trimmed: bool) -> bool:
        """Continues behind the right delimiter at `at`."""
        self._at = at + len(self._right)
        if trimmed:
            while self._text[self._at : self._at + 1] in tuple(_SPACES):
                self._at += 1
        return True

    def _right_at(self, at: int) -> tuple[bool, int]:
        """(is there a trim marker, where the right delimiter is or -1)."""
        text = self._text
        if text[at : at + 1] in tuple(_SPACES) and text[at + 1 : at + 2] == "-":
            marked = at + 2
            if text.startswith(self._right, marked):
                return True, marked
        return False, at if text.startswith(self._right, at) else -1

    def _action(self) -> bool:
        """Reads the action at `_at`. Returns False after an error."""
        text, start = self._text, self._at
        at = start + len(self._left)
        if self._trims(at):
            at += 2
        if text.startswith("/*", at):
            end = text.find("*/", at)
            if end < 0:
                return self._error("unclosed comment", start)
            trimmed, right = self._right_at(end + 2)
            if right < 0:
                return self._error("comment ends before closing delimiter", start)
            return self._after_right(right, trimmed)
        self._emit("left", self._left, start)
        self._parens = 0
        while True:
            trimmed, right = self._right_at(at)
            if right >= 0:
                if self._parens:
                    return self._error("unclosed left paren", at)
                self._emit("right", self._right, right)
                return self._after_right(right, trimmed)
            if at >= len(text):
                return self._error("unclosed action", at)
            if not self._word(at):
                return False
            at = self._at

    def _word(self, at: int) -> bool:
        """Reads one token and moves `_at` behind it."""
        text, character = self._text, self._text[at]
        if character in _SPACES:
            end = at
            while end < len(text) and text[end] in _SPACES and self._right_at(end)[1] < 0:
                end += 1
            return self._take("space", at, end)
        if character == '"':
            return self._quoted(at, '"', "string", "unterminated quoted string")
        if character == "`":
            end = text.find("`", at + 1)
            if end < 0:
                return self._error("unterminated raw quoted string", at)
            return self._take("raw", at, end + 1)
        if character == "'":
            return self._quoted(at, "'", "rune", "unterminated character constant")
        if character == "$":
            return self._named(at, "variable")
        if character == "." and not text[at + 1 : at + 2].isdigit():
            return self._named(at, "field")
        if character.isdigit() or character in "+-." or character == ".":
            return self._number(at)
        if _is_letter(character):
            return self._named(at, "name")
        if text.startswith(":=", at):
            return self._take("char", at, at + 2)
        if character == ":":
            return self._error("expected :=", at)
        if character == "(":
            self._parens += 1
        elif character == ")":
            self._parens -= 1
            if self._parens < 0:
                return self._error("unexpected right paren", at)
        elif not (character.isascii() and character.isprintable()):
            return self._error(f"unrecognized character in action: {_code(character)}", at)
        return self._take("char", at, at + 1)

    def _take(self, kind: str, at: int, end: int) -> bool:
        self._at = end
        return self._emit(kind, self._text[at:end], at)

    def _quoted(self, at: int, mark: str, kind: str, problem: str) -> bool:
        end = at + 1
        while end < len(self._text) and self._text[end] not in (mark, "\n"):
            end += 2 if self._text[end] == "\\" and self._text[end + 1 : end + 2] != "\n" else 1
        if self._text[end : end + 1] != mark:
            return self._error(problem, at)
        return self._take(kind, at, end + 1)

    def _named(self, at: int, kind: str) -> bool:
        text, end = self._text, at + (kind != "name")
        while end < len(text) and _is_letter(text[end]):
            end += 1
        if end < len(text) and not self._ends_name(end):
            return self._error(f"bad character {_code(text[end])}", at)
        word = text[at:end]
        if kind == "field" and word == ".":
            kind = "dot"
        elif kind == "name" and word in KEYWORDS:
            kind = word
        elif word in ("true", "false"):
            kind = "bool"
        return self._take(kind, at, end)

    def _ends_name(self, end: int) -> bool:
        return self._text[end] in " \t\r\n.,|:()" or self._text.startswith(self._right, end)

    def _number(self, at: int) -> bool:
        match = _NUMBER.match(self._text, at)
        end = match.end() if match else at + 1
        if end < len(self._text) and _is_letter(self._text[end]):
            return self._error(f"bad number syntax: {quote(self._text[at : end + 1])}", at)
        return self._take("number", at, end)


def _is_letter(character: str) -> bool:
    return character == "_" or character.isalnum()


def _code(character: str) -> str:
    return f"U+{ord(character):04X} '{character}'"
