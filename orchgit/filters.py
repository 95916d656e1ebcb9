"""The filter language of list requests (that of go-bexpr): text in, a predicate out.

expression = and_list { "or" and_list }          and_list = term { "and" term }
term = "not" term | "(" expression ")" | match
match = selector operator value | selector "is" ["not"] ("empty" | "nil")
      | value ["not"] "in" selector | "any"/"all" selector "as" name "{" expression "}"
operator = "==" | "!=" | ["not"] "contains" | ["not"] "matches"
selector = name { "." name | "[" string "]" } | "\"/json/pointer\""
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec

from orchgit.errors import InvalidInputError
from orchgit.regex import PatternError, compile_pattern
from orchgit.whole_number import whole_number

Predicate = Callable[[Any], bool]

_TOKEN = re.compile(
    r'\s*(?:(?P<string>"(?:[^"\\]|\\.)*"|`[^`]*`)|(?P<op>==|!=|[()\[\]{}.])'
    r"|(?P<word>[^\s()\[\]{}.\"`=!]+))"
)
_MAX_CHARACTERS = 4096
_MAX_DEPTH = 100
_MAX_SEARCH_STEPS = 500_000
"""Of `matches` on one value: 2 ms, as a list has many values."""
_MISSING = object()


class FieldError(InvalidInputError):
    """A selector names no field of the listed objects."""


def parse_filter(text: str) -> Predicate:
    """Parses an expression into a predicate.

    Raises InvalidInputError with the position of the first mistake. The predicate raises FieldError
    for a selector that names no field.
    """
    if len(text) > _MAX_CHARACTERS:
        raise InvalidInputError(
            f"failed to create result paginator: filter longer than {_MAX_CHARACTERS} characters"
        )
    parser = _Parser(text)
    predicate = parser.expression()
    parser.end()
    return predicate


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._next = 0
        self._depth = 0

    def expression(self) -> Predicate:
        terms = [self._conjunction()]
        while self._accept("or"):
            terms.append(self._conjunction())
        return terms[0] if len(terms) == 1 else lambda item: any(term(item) for term in terms)

    def end(self) -> None:
        if self._next < len(self._tokens):
            self._fail("the end of the filter, or `and`/`or`")

    def _conjunction(self) -> Predicate:
        terms = [self._term()]
        while self._accept("and"):
            terms.append(self._term())
        return terms[0] if len(terms) == 1 else lambda item: all(term(item) for term in terms)

    def _term(self) -> Predicate:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._fail(f"at most {_MAX_DEPTH} levels of nesting")
        try:
            if self._accept("not"):
                negated = self._term()
                return lambda item: not negated(item)
            if self._accept("("):
                inner = self.expression()
                self._expect(")")
                return inner
            if self._peek() in ("any", "all") and self._peek(1) not in ("==", "!=", "is", "."):
                return self._collection()
            return self._match()
        finally:
            self._depth -= 1

    def _collection(self) -> Predicate:
        quantifier = any if self._take() == "any" else all
        select = self._selector()
        self._expect("as")
        name = self._take()
        self._expect("{")
        inner = self.expression()
        self._expect("}")
        return lambda item: quantifier(inner({name: each}) for each in _items(select(item)))

    def _match(self) -> Predicate:
        following = self._peek(1), self._peek(2)
        if following[0] == "in" or following == ("not", "in"):
            return self._membership()
        select = self._selector()
        if self._accept("is"):
            return self._state(select)
        negate = self._accept("not")
        operator = self._take()
        if operator not in _OPERATORS or (negate and operator in ("==", "!=")):
            self._next -= 1
            self._fail("one of ==, !=, contains, matches, is, in")
        test = _OPERATORS[operator]
        wanted = self._value()
        matcher = test(wanted, self._fail)
        return lambda item: matcher(select(item)) != negate

    def _membership(self) -> Predicate:
        wanted = self._value()
        negate = self._accept("not")
        self._expect("in")
        select = self._selector()
        matcher = _contains(wanted, self._fail)
        return lambda item: matcher(select(item)) != negate

    def _state(self, select: Callable[[Any], Any]) -> Predicate:
        negate = self._accept("not")
        state = self._take()
        if state == "empty":
            return lambda item: (not _present(select(item))) != negate
        if state == "nil":
            return lambda item: (select(item) in (None, _MISSING)) != negate
        self._next -= 1
        self._fail("`empty` or `nil`")

    def _selector(self) -> Callable[[Any], Any]:
        first = self._take()
        if first.startswith('"'):
            path = [part for part in _unquoted(first).split("/") if part]
        else:
            path = [first]
            while True:
                if self._accept("."):
                    path.append(self._take())
                elif self._accept("["):
                    path.append(_unquoted(self._take()))
                    self._expect("]")
                else:
                    break
        return lambda item: _resolve(item, path)

    def _value(self) -> str:
        value = self._take()
        while self._peek() == "." and value[:1] not in '"`':  # 1.5, a version, a dotted name
            value += self._take() + self._take()
        return _unquoted(value)

    def _peek(self, ahead: int = 0) -> str:
        place = self._next + ahead
        return self._tokens[place][0] if place < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        if not token:
            self._fail("more text")
        self._next += 1
        return token

    def _accept(self, token: str) -> bool:
        if self._peek() == token:
            self._next += 1
            return True
        return False

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            self._fail(f'"{token}"')

    def _fail(self, expected: str) -> NoReturn:
        at = self._tokens[self._next][1] if self._next < len(self._tokens) else len(self._text)
        raise InvalidInputError(
            "failed to create result paginator: failed to read filter expression: "
            f"1:{at + 1} ({at}): no match found, expected: {expected}"
        )


def _tokens(text: str) -> list[tuple[str, int]]:
    found, at = [], 0
    stripped = len(text.rstrip())
    while at < stripped:
        match = _TOKEN.match(text, at)
        if match is None:
            raise InvalidInputError(
                "failed to create result paginator: failed to read filter expression: "
                f"1:{at + 1} ({at}): no match found, expected: an operator, a name or a value"
            )
        kind = match.lastgroup or "word"
        found.append((match.group(kind), match.start(kind)))
        at = match.end()
    return found


def _unquoted(token: str) -> str:
    if token.startswith("`"):
        return token[1:-1]
    if token.startswith('"'):
        return re.sub(r"\\(.)", r"\1", token[1:-1])
    return token


def _resolve(item: Any, path: list[str]) -> Any:
    for depth, name in enumerate(path):
        if item is None or item is _MISSING:
            return _MISSING
        item = _field(item, name, path, depth)
    return item


def _field(item: Any, name: str, path: list[str], depth: int) -> Any:
    if isinstance(item, dict):
        return item.get(name, _MISSING)
    if isinstance(item, list) and (place := whole_number(name)) is not None:
        return item[place] if 0 <= place < len(item) else _MISSING
    if isinstance(item, msgspec.Struct):
        attribute = field_names(type(item)).get(name)
        if attribute is not None:
            return getattr(item, attribute)
    pointer = "/".join(path)
    raise FieldError(
        f"failed to read result page: error finding value in datum: /{pointer} at part {depth}: "
        f'couldn\'t find key: struct field with name "{name}"'
    )


_names: dict[type[msgspec.Struct], dict[str, str]] = {}


def field_names(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Returns the attributes by Go's names of the fields."""
    if kind not in _names:
        _names[kind] = {f.encode_name: f.name for f in msgspec.structs.fields(kind)}
    return _names[kind]


def _items(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value)
    return list(value) if isinstance(value, list | tuple) else []


def _present(value: Any) -> bool:
    return value is not _MISSING and value is not None and value not in ("", [], {})


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None or value is _MISSING else str(value)


def _equals(wanted: str, fail: Callable[[str], NoReturn]) -> Predicate:
    def matcher(value: Any) -> bool:
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                return float(wanted) == value
            except ValueError:
                return False
        return value is not _MISSING and _text(value) == wanted

    return matcher


def _differs(wanted: str, fail: Callable[[str], NoReturn]) -> Predicate:
    equal = _equals(wanted, fail)
    return lambda value: not equal(value)


def _contains(wanted: str, fail: Callable[[str], NoReturn]) -> Predicate:
    def matcher(value: Any) -> bool:
        if isinstance(value, str):
            return wanted in value
        return wanted in [_text(each) for each in _items(value)]

    return matcher


def _matches(wanted: str, fail: Callable[[str], NoReturn]) -> Predicate:
    try:
        pattern = compile_pattern(wanted)
    except PatternError:
        fail("a regular expression")
    return lambda value: pattern.search(_text(value), _MAX_SEARCH_STEPS)


_OPERATORS: dict[str, Callable[[str, Callable[[str], NoReturn]], Predicate]] = {
    "==": _equals,
    "!=": _differs,
    "contains": _contains,
    "matches": _matches,
}
