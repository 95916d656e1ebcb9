"""Reads an HCL1 text or its JSON form into one tree."""

from __future__ import annotations

from collections.abc import Iterator

from orchgit.errors import TooLargeError
from orchgit.hcl1.errors import Hcl1Error, Hcl1Mistake, Hcl1Problem
from orchgit.hcl1.scanner import Scanner, Token
from orchgit.hcl1.tree import Hcl1Body, Hcl1Item, Key, ListValue, Literal, Position, Value

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 64
MAX_PROBLEMS = 20

_LITERALS = frozenset(("NUMBER", "FLOAT", "BOOL", "STRING", "HEREDOC", "NULL"))
_OPENING = frozenset(("LBRACE", "LBRACK"))
_CLOSING = frozenset(("RBRACE", "RBRACK"))


def parse(text: str, filename: str) -> Hcl1Body:
    """Returns the tree of the text; one that begins with `{` is read as JSON.

    Positions carry `filename`. Raises Hcl1Error with every mistake, and TooLargeError for a text of
    more than `MAX_BYTES` bytes.
    """
    if len(text) > MAX_BYTES or len(text.encode(errors="replace")) > MAX_BYTES:
        raise TooLargeError(f"cannot read {filename}: it has more than {MAX_BYTES} bytes")
    json = text.lstrip("\ufeff \t\r\n").startswith("{")
    parser = _Parser(Scanner(filename, text, json).tokens(), json)
    body = parser.file(Position(filename, 1, 1))
    if parser.problems:
        raise Hcl1Error(filename, parser.problems)
    return body


class _Parser:
    """Reads the tokens of one text with one token of look-ahead."""

    def __init__(self, tokens: Iterator[Token], json: bool) -> None:
        self.problems: list[Hcl1Problem] = []
        self._tokens = tokens
        self._json = json
        self._depth = 0
        self._token = next(tokens)

    def file(self, start: Position) -> Hcl1Body:
        if self._json:
            try:
                body = self._object()
                if self._token.kind != "EOF":
                    raise self._mistake(f"unexpected text after the object: {self._token.text}")
            except Hcl1Mistake as mistake:
                self._note(mistake)
                return Hcl1Body((), start)
            return body
        return Hcl1Body(self._items(), start)

    def _items(self) -> tuple[Hcl1Item, ...]:
        """Reads items up to the brace that closes them, or the end; a wrong item is noted."""
        items: list[Hcl1Item] = []
        depth = self._depth
        while self._token.kind != "EOF":
            if self._token.kind == "RBRACE" and self._depth:
                break
            try:
                keys = self._keys()
                if self._json or self._token.kind != "LBRACE":
                    self._advance()
                items.append(Hcl1Item(keys, self._value()))
                if self._token.kind == "COMMA":
                    self._advance()
            except Hcl1Mistake as mistake:
                self._note(mistake)
                self._depth = depth
                self._skip_item(mistake.problem.position.line)
        return tuple(items)

    def _keys(self) -> tuple[Key, ...]:
        """Reads a name and its labels; the token after them is `=` or an opening brace, in JSON a
        colon."""
        if self._json:
            key = self._token
            if key.kind != "STRING":
                raise self._mistake(f"expected: STRING got: {key.kind}")
            self._advance()
            if self._token.kind != "COLON":
                raise self._mistake(f"expected: COLON got: {self._token.kind}")
            return (Key(str(key.value), key.position),)
        keys: list[Token] = []
        while self._token.kind in ("IDENT", "STRING"):
            keys.append(self._token)
            self._advance()
        kind = self._token.kind
        written = " ".join(key.text for key in keys)
        if kind == "EOF" and keys:
            raise self._mistake(
                f"key '{written}' expected start of object ('{{') or assignment ('=')"
            )
        if kind == "ASSIGN" and len(keys) > 1:
            raise self._mistake("nested object expected: LBRACE got: ASSIGN")
        if kind == "ASSIGN" and not keys:
            raise self._mistake("no object keys found!")
        if kind == "LBRACE" and not keys:
            raise self._mistake("expected: IDENT | STRING got: LBRACE")
        if kind not in ("ASSIGN", "LBRACE"):
            raise self._mistake(f"expected: IDENT | STRING | ASSIGN | LBRACE got: {kind}")
        return tuple(Key(str(key.value), key.position) for key in keys)

    def _value(self) -> Value:
        token = self._token
        if token.kind in _LITERALS:
            self._advance()
            quoted = token.kind in ("STRING", "HEREDOC")
            return Literal(token.value, str(token.value) if quoted else token.text, token.position)
        if token.kind == "LBRACE":
            return self._object()
        if token.kind == "LBRACK":
            return self._list()
        place = f"{token.position.line}:{token.position.column}"
        raise self._mistake(f"Unknown token: {place} {token.kind} {token.text}".rstrip())

    def _object(self) -> Hcl1Body:
        start = self._token.position
        self._enter()
        items = self._items()
        if self._token.kind != "RBRACE":
            raise self._mistake(f"object expected closing RBRACE got: {self._token.kind}")
        self._leave()
        return Hcl1Body(items, start)

    def _list(self) -> ListValue:
        start = self._token.position
        self._enter()
        items: list[Value] = []
        after_value = False
        while self._token.kind != "RBRACK":
            kind = self._token.kind
            if kind == "COMMA":
                after_value = False
                self._advance()
                continue
            if after_value:
                raise self._mistake(f"error parsing list, expected comma or list end, got: {kind}")
            if kind not in _LITERALS and kind not in _OPENING:
                raise self._mistake(f"unexpected token while parsing list: {kind}")
            items.append(self._value())
            after_value = True
        self._leave()
        return ListValue(tuple(items), start)

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._mistake(f"more than {MAX_DEPTH} objects and lists inside each other")
        self._advance()

    def _leave(self) -> None:
        self._depth -= 1
        self._advance()

    def _advance(self) -> None:
        if self._token.kind != "EOF":
            self._token = next(self._tokens)

    def _mistake(self, message: str) -> Hcl1Mistake:
        token = self._token
        return Hcl1Mistake(token.position, token.text if token.kind == "ILLEGAL" else message)

    def _note(self, mistake: Hcl1Mistake) -> None:
        """Keeps the mistake; all that a missing brace brings about at the end is told once."""
        at_end = self._token.kind == "EOF" and self.problems
        if not at_end and len(self.problems) < MAX_PROBLEMS:
            self.problems.append(mistake.problem)

    def _skip_item(self, line: int) -> None:
        """Goes to the first token of a later line that stands in the same body."""
        opened = 0
        while self._token.kind != "EOF":
            kind = self._token.kind
            if opened == 0 and (kind == "RBRACE" or self._token.position.line > line):
                break
            opened += (kind in _OPENING) - (kind in _CLOSING)
            opened = max(opened, 0)
            self._advance()
        if self._token.kind == "RBRACE" and not self._depth:
            self._advance()
