"""Formats a job file as HCL's own formatter does: `orchgit fmt`.

Only white space between tokens changes. Quotes, heredocs, comments and line breaks stay as they
are: a file means the same before and after. Formatting twice changes nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from jobspec.errors import Diagnostics, HclError, SourceText
from jobspec.hcl.graphemes import grapheme_count
from jobspec.hcl.lexer import tokenize
from jobspec.hcl.parser import parse_body

_OPENING = frozenset("{[(")
_CLOSING = frozenset("}])")
_BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_TIGHT_BEFORE = frozenset((",", ".", "...", "]", ")", "::"))
_TIGHT_AFTER = frozenset(("[", "(", ".", "!", "::"))
_ENDS_VALUE = frozenset(("id", "num", "text", "]", ")", "}"))

_INDENT = "  "


class _Piece:
    """A token as laid out: `kind` is the lexer's, or text (in quotes, a heredoc) or comment."""

    __slots__ = ("kind", "space", "text")

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        self.text = text
        self.space = 0


class _Line:
    """What is on one line: the lead, from `=` on the value, and a comment at the end."""

    __slots__ = ("comment", "ending", "indent", "lead", "value")

    def __init__(self, pieces: list[_Piece], ending: str) -> None:
        self.lead = pieces
        self.value: list[_Piece] = []
        self.comment: list[_Piece] = []
        self.ending = ending
        self.indent = 0
        self._split()

    def _split(self) -> None:
        if len(self.lead) > 1 and self.lead[-1].kind == "comment":
            self.comment = [self.lead.pop()]
        for at, piece in enumerate(self.lead):
            if at and piece.kind == "=":
                if _net(self.lead[at:]) == 0:
                    self.value = self.lead[at:]
                    self.lead = self.lead[:at]
                return

    @property
    def pieces(self) -> list[_Piece]:
        return [*self.lead, *self.value, *self.comment]


def format_text(source: SourceText, diagnostics: Diagnostics) -> str | None:
    """Returns the formatted text; None, with the problems reported, for anything but HCL."""
    text = source.text
    bom = text[:1] if text[:1] == "\ufeff" else ""
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        at = text.index("{")
        hint = "A job file in JSON is laid out by tools for JSON."
        diagnostics.add(HclError("Not HCL: this file is JSON.", at, at + 1, hint))
        return None
    parse_body(source, diagnostics)
    if diagnostics.found:
        return None
    lines = list(_lines(text, len(bom)))
    _set_indents(lines)
    for line in lines:
        _set_spaces(line.pieces)
    _align(lines, comments=False)
    _align(lines, comments=True)
    formatted = ""
    for line in lines:
        shown = "".join(" " * piece.space + piece.text for piece in line.pieces)
        formatted += (_INDENT * line.indent + shown if shown else "") + line.ending
    if formatted and not formatted.endswith("\n"):
        formatted += "\n"
    return bom + formatted


# -- lines -------------------------------------------------------------------------------------


def _lines(text: str, start: int) -> Iterator[_Line]:
    current: list[_Piece] = []
    for piece in _pieces(text, start):
        if piece.kind == "nl":
            body = piece.text.rstrip("\r\n")
            if body:
                current.append(_Piece("comment", body.rstrip()))
            yield _Line(current, piece.text[len(body) :])
            current = []
        else:
            current.append(piece)
    if current:
        yield _Line(current, "")


def _pieces(text: str, start: int) -> Iterator[_Piece]:
    """Quoted strings and heredocs as one piece each, block comments between the tokens."""
    tokens, _ = tokenize(text, start)
    depth, opened, before = 0, 0, start
    for kind, at, end in tokens:
        if depth == 0:
            for comment in _BLOCK_COMMENT.finditer(text, before, at):
                yield _Piece("comment", comment[0])
        if kind in ("oq", "oh"):
            opened = at if depth == 0 else opened
            depth += 1
        elif kind in ("cq", "ch"):
            depth -= 1
            if depth == 0:
                yield _Piece("text", text[opened:end])
        elif depth == 0 and kind != "eof":
            yield _Piece("text" if kind == "str" else kind, text[at:end])
        before = end


# -- indents -----------------------------------------------------------------------------------


def _net(pieces: Sequence[_Piece]) -> int:
    """Brackets opened less brackets closed."""
    return sum((piece.kind in _OPENING) - (piece.kind in _CLOSING) for piece in pieces)


def _set_indents(lines: Sequence[_Line]) -> None:
    """One step for each line that leaves brackets open, however many they are."""
    steps: list[int] = []
    for line in lines:
        net = _net(line.pieces)
        while net < 0 and steps:
            if steps[-1] > -net:
                steps[-1] += net
                break
            net += steps.pop()
        line.indent = len(steps)
        if net > 0:
            steps.append(net)


# -- spaces ------------------------------------------------------------------------------------


def _set_spaces(pieces: Sequence[_Piece]) -> None:
    before = _Piece("nl", "")
    for left, right in pairwise(pieces):
        right.space = 1 if _spaced(before, left, right) else 0
        before = left


def _spaced(before: _Piece, left: _Piece, right: _Piece) -> bool:
    """Whether a space stands between two tokens; `before` is the one before the left."""
    if "comment" in (left.kind, right.kind):
        return True
    if (before.kind, left.kind, right.kind) == ("num", ".", "num"):
        return True  # an index of a number; without the space it were another number
    if right.kind in _TIGHT_BEFORE or left.kind in _TIGHT_AFTER:
        return False
    if left.kind in _OPENING or right.kind in _CLOSING:  # only braces are left
        return left.text + right.text != "{}"
    if left.kind == "-" and before.kind not in _ENDS_VALUE:
        return False  # a sign
    if right.kind in ("[", "("):
        is_splat = before.kind == "." and left.kind == "*"
        return not (is_splat or _belongs_to(left, right))
    return True


def _belongs_to(left: _Piece, bracket: _Piece) -> bool:
    """`f(` and `x[`: no space between a value and the bracket that asks something of it."""
    if left.kind == "id" and left.text in ("in", "if", "for"):
        return False
    return left.kind == "id" if bracket.kind == "(" else left.kind in _ENDS_VALUE


# -- columns -----------------------------------------------------------------------------------


def _align(lines: Sequence[_Line], comments: bool) -> None:
    """Align the `=` of consecutive lines, or their comments."""
    run: list[_Line] = []
    for line in lines:
        if not (line.comment if comments else line.value):
            _align_run(run, comments)
            run = []
            continue
        run.append(line)
    _align_run(run, comments)


def _align_run(run: Sequence[_Line], comments: bool) -> None:
    widths = []
    for line in run:
        before = [*line.lead, *line.value] if comments else line.lead
        widths.append(
            len(_INDENT) * line.indent + sum(piece.space + _width(piece.text) for piece in before)
        )
    widest = max(widths, default=0)
    for line, width in zip(run, widths, strict=True):
        cell = line.comment if comments else line.value
        cell[0].space = widest - width + 1


def _width(text: str) -> int:
    return len(text) if text.isascii() else grapheme_count(text)
