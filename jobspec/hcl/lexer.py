"""Text to tokens, in one pass and with one master regular expression.

A token is (kind, start, end). Kinds are the punctuation itself, or: id, num, str (a quoted string
without template sequences), nl (a newline, also one that ends a comment), eof, bad; and for
templates: oq/cq and oh/ch (quote or heredoc opens, closes), lit (literal run), qnl (a newline
inside quotes), ${ and %{ (sequence opens), te (sequence closes).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from jobspec.errors import HclError

Token = tuple[str, int, int]
_Matches = Callable[[], "re.Match[str] | None"]

MAX_DEPTH = 100
"""Nesting of templates, brackets and blocks that the reader follows before it gives up."""

_IDENT = r"(?:[A-Za-z_]|[^\x00-\x7f])(?:[A-Za-z0-9_-]|[^\x00-\x7f])*"
_COMMENT = r"|(/\*(?:[^*]|\*(?!/))*\*/)"  # 7
_PATTERN = (
    r"[ \t]*(?:"
    rf"({_IDENT})"  # 1
    r"|(\r?\n)"  # 2
    r"|(=>|==|!=|<=|>=|&&|\|\||\.\.\.|::|[=\[\]{}().,:?!<>+\-*%]|/(?![/*]))"  # 3
    r'|("(?:[^"\\$%\r\n]|\\[^\r\n]|\$(?![{$])|%(?![{%]))*")'  # 4
    r"|([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"  # 5
    r"|((?:\#|//)[^\n]*(?:\n|$))"  # 6
    "COMMENT"
    r'|(")'  # 8
    r"|(/)"  # 9
    r")"
)
_MASTER = re.compile(_PATTERN.replace("COMMENT", _COMMENT))
_UNCLOSED = re.compile(_PATTERN.replace("COMMENT", r"|((?!))"))
"""For what follows a comment that is never closed: looking for its end once is enough."""
_HEREDOC = re.compile(rf"<<(-?)({_IDENT})\r?\n")
_QUOTED_RUN = re.compile(r'(?:[^"\\$%\r\n]|\\[^\r\n]|\$\$\{|%%\{|\$(?!\{)|%(?!\{)|\r(?!\n))+')
_HEREDOC_RUN = re.compile(r"(?:[^$%\n]|\$\$\{|%%\{|\$(?!\{)|%(?!\{))+")
_SPACE = re.compile(r"[ \t]*")
_KINDS = ("", "id", "nl", "", "str", "num", "nl", "", "", "/")

_BAD_CHARACTERS = {
    "'": 'Invalid character: single quotes are not valid. Use double quotes (") for strings.',
    "`": 'Invalid character: the "`" character is not valid. Use <<EOT for a longer string.',
    ";": 'Invalid character: the ";" character is not valid. Use newlines to separate arguments.',
    "&": "Unsupported operator: bitwise operators are not supported. Did you mean &&?",
    "|": "Unsupported operator: bitwise operators are not supported. Did you mean ||?",
    "^": 'Unsupported operator: "^" is not supported. Use pow() to raise to a power.',
    "~": "Unsupported operator: bitwise operators are not supported.",
}


def tokenize(text: str, start: int = 0) -> tuple[list[Token], list[HclError]]:
    """All tokens, ending in eof, and the errors of characters HCL2 does not know."""
    lexer = _Lexer(text)
    lexer.main(start, inside_template=False)
    lexer.tokens.append(("eof", len(text), len(text)))
    return lexer.tokens, lexer.errors


def tokenize_template(text: str, start: int, end: int) -> tuple[list[Token], list[HclError]]:
    """The tokens of a template without quotes, as JSON's strings are: ends in ch, eof."""
    lexer = _Lexer(text[start:end])
    with _moved_error(start):
        lexer.bare_template(0)
    tokens, errors = _moved(lexer, start)
    return [*tokens, ("ch", end, end), ("eof", end, end)], errors


def tokenize_range(text: str, start: int, end: int) -> tuple[list[Token], list[HclError]]:
    """The tokens of a range alone, ending in eof. The rest of a long text costs nothing."""
    lexer = _Lexer(text[start:end])
    with _moved_error(start):
        lexer.main(0, inside_template=False)
    tokens, errors = _moved(lexer, start)
    return [*tokens, ("eof", end, end)], errors


def _moved(lexer: _Lexer, by: int) -> tuple[list[Token], list[HclError]]:
    for error in lexer.errors:
        _move(error, by)
    return [(kind, start + by, end + by) for kind, start, end in lexer.tokens], lexer.errors


@contextmanager
def _moved_error(by: int) -> Iterator[None]:
    try:
        yield
    except HclError as error:
        _move(error, by)
        raise


def _move(error: HclError, by: int) -> None:
    error.start += by
    error.end += by


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = []
        self.errors: list[HclError] = []
        self.depth = 0
        self.ascii = text.isascii()
        self.pattern = _MASTER

    def main(self, pos: int, inside_template: bool) -> int:
        """Tokens of ordinary text; inside a template, up to and with the closing brace."""
        text, tokens, ascii_ = self.text, self.tokens, self.ascii
        scan = self.matches(pos)
        braces = 0
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise HclError(f"Nesting too deep: more than {MAX_DEPTH} levels.", pos, pos + 1)
        while True:
            m = scan()
            if m is None:
                pos = _skip_space(text, pos)
                if pos >= len(text):
                    break
                if inside_template and braces == 0 and text.startswith("~}", pos):
                    tokens.append(("te", pos, pos + 2))
                    pos += 2
                    break
                pos = self._bad(pos)
                scan = self.matches(pos)
                continue
            group = m.lastindex
            start, end = m.span(group)  # type: ignore[arg-type]
            pos = end
            if group == 3:
                kind = text[start:end]
                if inside_template:
                    if kind == "{":
                        braces += 1
                    elif kind == "}":
                        if braces == 0:
                            tokens.append(("te", start, end))
                            break
                        braces -= 1
                if kind == "<" and text.startswith("<<", start):
                    heredoc = _HEREDOC.match(text, start)
                    if heredoc is not None:
                        pos = self._heredoc(heredoc)
                        scan = self.matches(pos)
                        continue
                tokens.append((kind, start, end))
            elif group == 1:
                if not ascii_ and not text[start:end].isascii():
                    known = self._unicode_ident(start, end)
                    pos = known if known > start else self._bad(start)
                    scan = self.matches(pos)
                    if known == start:
                        continue
                    end = known
                tokens.append(("id", start, end))
            elif group == 8:
                pos = self._quoted(start)
                scan = self.matches(pos)
            elif group == 9:
                self.pattern = _UNCLOSED
                scan = self.matches(pos)
                tokens.append(("/", start, end))
            elif group != 7:
                tokens.append((_KINDS[group], start, end))  # type: ignore[index]
        self.depth -= 1
        return pos

    def matches(self, pos: int) -> _Matches:
        """One match after the other without saying where: a third cheaper than `match(text, pos)`.
        The method is `re`'s own, though typeshed does not know it."""
        found: _Matches = self.pattern.scanner(self.text, pos).match  # type: ignore[attr-defined]
        return found

    def _bad(self, pos: int) -> int:
        char = self.text[pos]
        message = _BAD_CHARACTERS.get(
            char, "Invalid character: this character is not used within the language."
        )
        self.errors.append(HclError(message, pos, pos + 1))
        self.tokens.append(("bad", pos, pos + 1))
        return pos + 1

    def _unicode_ident(self, start: int, end: int) -> int:
        """Where the identifier really ends: the master pattern takes all of non-ASCII."""
        text = self.text
        for at in range(start, end):
            char = text[at]
            if char == "-" and at > start:
                continue
            if not (char if at == start else "a" + char).isidentifier():
                return at
        return end

    def _quoted(self, start: int) -> int:
        self.tokens.append(("oq", start, start + 1))
        text, pos = self.text, start + 1
        while pos < len(text):
            run = _QUOTED_RUN.match(text, pos)
            if run is not None:
                self.tokens.append(("lit", pos, run.end()))
                pos = run.end()
                continue
            char = text[pos]
            if char == '"':
                self.tokens.append(("cq", pos, pos + 1))
                return pos + 1
            if char in "$%":
                pos = self._sequence(pos)
            elif char == "\\":
                self.tokens.append(("lit", pos, pos + 1))
                pos += 1
            else:
                end = text.index("\n", pos) + 1
                self.tokens.append(("qnl", pos, end))
                self._broken_string(pos, end)
                pos = end
        return pos

    def _broken_string(self, start: int, end: int) -> None:
        """A newline inside quotes: what follows is read as string, so only the first counts."""
        if not any(error.message.startswith("Invalid multi") for error in self.errors):
            message = "Invalid multi-line string: quoted strings may not span lines."
            hint = "Use \\n, or the heredoc form <<EOT."
            self.errors.append(HclError(message, start, end, hint))

    def _sequence(self, pos: int) -> int:
        end = pos + 3 if self.text.startswith("~", pos + 2) else pos + 2
        self.tokens.append((self.text[pos : pos + 2], pos, end))
        return self.main(end, inside_template=True)

    def _heredoc(self, opening: re.Match[str]) -> int:
        """Body and closing marker; what follows the marker on its line is the newline."""
        text, marker, pos = self.text, opening[2], opening.end()
        self.tokens.append(("oh", opening.start(), pos))
        line_start = True
        lit_start = pos
        while pos < len(text):
            newline = text.find("\n", pos) if line_start else -1
            if newline >= 0 and text[pos:newline].strip() == marker:
                self._literal(lit_start, pos)
                if text[newline - 1] == "\r":
                    newline -= 1
                self.tokens.append(("ch", pos, newline))
                return newline
            run = _HEREDOC_RUN.match(text, pos)
            if run is not None:
                pos = run.end()
                line_start = False
                continue
            if text[pos] == "\n":
                pos += 1
                line_start = True
                continue
            self._literal(lit_start, pos)
            lit_start = pos = self._sequence(pos)
            line_start = False
        self._literal(lit_start, pos)
        return pos

    def bare_template(self, pos: int) -> None:
        text, lit_start = self.text, pos
        while pos < len(text):
            run = _HEREDOC_RUN.match(text, pos)
            if run is not None:
                pos = run.end()
            elif text[pos] == "\n":
                pos += 1
            else:
                self._literal(lit_start, pos)
                lit_start = pos = self._sequence(pos)
        self._literal(lit_start, pos)

    def _literal(self, start: int, end: int) -> None:
        if end > start:
            self.tokens.append(("lit", start, end))


def _skip_space(text: str, pos: int) -> int:
    m = _SPACE.match(text, pos)
    return m.end() if m else pos
