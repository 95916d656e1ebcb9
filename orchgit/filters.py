"""The filter language of list requests (that of go-bexpr): text in, a predicate out.

expression = conjunction ["or" expression]       conjunction = negation ["and" conjunction]
negation = "not" negation | "(" expression ")" | quantifier | match
match = selector operator value | selector "is" ["not"] ("empty" | "nil")
      | value ["not"] "in" selector
operator = "==" | "!=" | ["not"] "contains" | ["not"] "matches"
quantifier = ("any" | "all") selector "as" name ["," name] "{" expression "}"
selector = name { "." name | "[" string "]" } | "\"/json/pointer\""

A mistake is told as the reference's parser tells it: at the farthest place that was read, with
everything that could have followed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchgit.errors import InvalidInputError
from orchgit.filter_values import MISSING, FieldError, Found, GoKind, find, items_of
from orchgit.go_quote import quote
from orchgit.regex import PatternError, compile_pattern

Predicate = Callable[[Any], bool]
_Scope = Mapping[str, Found]
_Test = Callable[[Any, _Scope], bool]

_PREFIX = "failed to create result paginator: "
_MAX_CHARACTERS = 4096
_MAX_DEPTH = 100
_MAX_SEARCH_STEPS = 500_000
"""Of `matches` on one value: 2 ms, as a list has many values."""

_SPACES = re.compile(r"[ \t\r\n]*")
_NAME_REST = re.compile(r"[a-zA-Z0-9_/]*")
_POINTER = re.compile(r'"((?:/[^/"]+)+)"')
_DIGITS = re.compile(r"[0-9]+")
_STRINGS = {
    '"': re.compile(r'((?:[^"\\]|\\.)*)("?)', re.DOTALL),
    "`": re.compile(r"([^`]*)(`?)"),
}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_AFTER_NUMBER = re.compile(r"[ \t\r\n)}]|$")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_WHITESPACE_CLASS = r"[ \t\r\n]"
_GO_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F_]+|0[oO]?[0-7_]+|0[bB][01_]+|[1-9][0-9_]*|0)")
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))


def parse_filter(text: str) -> Predicate:
    """Parses an expression into a predicate.

    Raises InvalidInputError with the position of the first mistake. The predicate raises FieldError
    for a selector that names no field, and for a comparison that its value does not allow.
    """
    if len(text) > _MAX_CHARACTERS:
        raise InvalidInputError(f"{_PREFIX}filter longer than {_MAX_CHARACTERS} characters")
    test = _Parser(text).whole()
    return lambda item: test(item, {})


@dataclass(frozen=True, slots=True)
class _Selector:
    path: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.path)

    def find(self, item: Any, scope: _Scope) -> Found:
        return find(item, self.path, scope)


class _Parser:
    """Reads at a position and returns (position after, what was read), or None.

    `_farthest` and `_wanted` are where reading failed last and what could have been there.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._farthest = 0
        self._wanted: set[str] = set()
        self._mistakes: dict[str, None] = {}
        self._depth = 0

    def whole(self) -> _Test:
        found = self._expression(self._optional_spaces(0))
        if found is not None:
            end = self._optional_spaces(found[0])
            if end == len(self._text) and not self._mistakes:
                return found[1]
            self._miss(end, "!.")
        raise InvalidInputError(f"{_PREFIX}failed to read filter expression: {self._problem()}")

    def _problem(self) -> str:
        if self._mistakes:
            return "\n".join(self._mistakes)
        wanted = sorted(self._wanted - {"!."})
        if "!." in self._wanted:
            wanted.append("EOF")
        last = wanted.pop()
        listed = f"{', '.join(wanted)} or {last}" if wanted else last
        return f"{self._place(self._farthest)}: no match found, expected: {listed}"

    def _place(self, at: int) -> str:
        before = self._text[:at]
        line_start = before.rfind("\n") + 1
        line, column = before.count("\n") + 1, at - line_start + 1
        return f"{line}:{column} ({len(before.encode())})"

    # -- grammar ---------------------------------------------------------------------------

    def _expression(self, at: int) -> tuple[int, _Test] | None:
        return self._joined(at, self._conjunction, "or", self._expression)

    def _conjunction(self, at: int) -> tuple[int, _Test] | None:
        return self._joined(at, self._negation, "and", self._conjunction)

    def _joined(
        self,
        at: int,
        left: Callable[[int], tuple[int, _Test] | None],
        word: str,
        right: Callable[[int], tuple[int, _Test] | None],
    ) -> tuple[int, _Test] | None:
        one = left(at)
        if one is None:
            return None
        after = self._spaced(one[0], (word,))
        other = None if after is None else right(after)
        if other is None:
            return one
        first, second = one[1], other[1]
        if word == "or":
            return other[0], lambda item, scope: first(item, scope) or second(item, scope)
        return other[0], lambda item, scope: first(item, scope) and second(item, scope)

    def _negation(self, at: int) -> tuple[int, _Test] | None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise InvalidInputError(f"{_PREFIX}filter with more than {_MAX_DEPTH} nested levels")
        try:
            after = self._word(at, "not")
            after = None if after is None else self._spaces(after)
            negated = None if after is None else self._negation(after)
            if negated is not None:
                inner = negated[1]
                return negated[0], lambda item, scope: not inner(item, scope)
            return self._group(at)
        finally:
            self._depth -= 1

    def _group(self, at: int) -> tuple[int, _Test] | None:
        after = self._word(at, "(")
        if after is None:
            return self._quantifier(at) or self._match(at)
        found = self._expression(self._optional_spaces(after))
        if found is None:
            return None
        end = self._optional_spaces(found[0])
        closed = self._word(end, ")")
        if closed is None:
            self._mistake(end, "grouping", "Unmatched parentheses")
            return None
        return closed, found[1]

    def _quantifier(self, at: int) -> tuple[int, _Test] | None:
        after = self._word(at, "all")
        combine: Callable[[Any], bool] = all
        if after is None:
            after, combine = self._word(at, "any"), any
        after = None if after is None else self._spaces(after)
        selected = None if after is None else self._selector(after)
        after = None if selected is None else self._spaced(selected[0], ("as",))
        names = None if after is None else self._names(after)
        if selected is None or names is None:
            return None
        opened = self._word(self._optional_spaces(names[0]), "{")
        inner = None if opened is None else self._expression(self._optional_spaces(opened))
        closed = None if inner is None else self._word(self._optional_spaces(inner[0]), "}")
        if closed is None or inner is None:
            return None
        selector, bound, test = selected[1], names[1], inner[1]

        def quantified(item: Any, scope: _Scope) -> bool:
            return combine(
                test(item, {**scope, **each}) for each in _bindings(selector, bound, item, scope)
            )

        return closed, quantified

    def _names(self, at: int) -> tuple[int, tuple[str, ...]] | None:
        first = self._name(at)
        if first is None:
            return None
        comma = self._word(self._optional_spaces(first[0]), ",")
        second = None if comma is None else self._name(self._optional_spaces(comma))
        if second is None:
            return first[0], (first[1],)
        return second[0], (first[1], second[1])

    def _match(self, at: int) -> tuple[int, _Test] | None:
        selected = self._selector(at)
        if selected is not None:
            found = self._compared(*selected) or self._stated(*selected)
            if found is not None:
                return found
        return self._membership(at)

    def _compared(self, at: int, selector: _Selector) -> tuple[int, _Test] | None:
        for words, test, negated in _COMPARISONS:
            after = self._operator(at, words)
            if after is None:
                continue
            value = self._value(after)
            return None if value is None else (value[0], test(selector, value[1], negated))
        return None

    def _operator(self, at: int, words: Sequence[str]) -> int | None:
        if words[0] not in ("==", "!="):
            return self._spaced(at, words)
        after = self._word(self._optional_spaces(at), words[0])
        return None if after is None else self._optional_spaces(after)

    def _stated(self, at: int, selector: _Selector) -> tuple[int, _Test] | None:
        for words, test, negated in _STATES:
            after = self._spaced(at, words, space_follows=False)
            if after is not None:
                return after, test(selector, "", negated)
        return None

    def _membership(self, at: int) -> tuple[int, _Test] | None:
        value = self._value(at)
        if value is None:
            return None
        for words, negated in ((("in",), False), (("not", "in"), True)):
            after = self._spaced(value[0], words)
            if after is None:
                continue
            selected = self._selector(after)
            if selected is not None:
                return selected[0], _contains(selected[1], value[1], negated)
            self._mistake(after, "match", "Invalid selector")
        return None

    # -- selectors and values --------------------------------------------------------------

    def _selector(self, at: int) -> tuple[int, _Selector] | None:
        return self._dotted_name(at) or self._json_pointer(at)

    def _dotted_name(self, at: int) -> tuple[int, _Selector] | None:
        first = self._name(at)
        if first is None:
            return None
        end, name = first
        path = [name]
        while (part := self._dotted(end) or self._indexed(end)) is not None:
            end = part[0]
            path.append(part[1])
        return end, _Selector(tuple(path))

    def _dotted(self, at: int) -> tuple[int, str] | None:
        after = self._word(at, ".")
        if after is None:
            return None
        digits = _DIGITS.match(self._text, after)
        return (digits.end(), digits[0]) if digits else self._name(after)

    def _indexed(self, at: int) -> tuple[int, str] | None:
        after = self._word(at, "[")
        if after is None:
            return None
        after = self._optional_spaces(after)
        key = self._string(after)
        if key is None:
            self._mistake(after, "index", "Invalid index")
            return None
        end = self._optional_spaces(key[0])
        closed = self._word(end, "]")
        if closed is None:
            self._mistake(end, "index", "Unclosed index expression")
            return None
        return closed, key[1]

    def _name(self, at: int) -> tuple[int, str] | None:
        character = self._text[at : at + 1]
        if not (character.isascii() and (character.isalpha() or character == "_")):
            self._miss(at, "[a-zA-Z]")
            return None
        rest = _NAME_REST.match(self._text, at + 1)
        assert rest is not None
        self._miss(rest.end(), "[a-zA-Z0-9_/]")
        return rest.end(), self._text[at : rest.end()]

    def _json_pointer(self, at: int) -> tuple[int, _Selector] | None:
        pointer = _POINTER.match(self._text, at)
        if pointer is None:
            self._miss(at, r'"\""')
            return None
        return pointer.end(), _Selector(tuple(pointer[1][1:].split("/")))

    def _value(self, at: int) -> tuple[int, str] | None:
        name = self._dotted_name(at)
        if name is not None:
            return name[0], str(name[1])
        return self._number(at) or self._string(at)

    def _number(self, at: int) -> tuple[int, str] | None:
        number = _NUMBER.match(self._text, at)
        if number is None:
            for want in ('"-"', '"0"', "[1-9]"):
                self._miss(at, want)
            return None
        if _AFTER_NUMBER.match(self._text, number.end()) is None:
            self._mistake(number.end(), "number", "Invalid number literal")
            return None
        return number.end(), number[0]

    def _string(self, at: int) -> tuple[int, str] | None:
        quote = self._text[at : at + 1]
        if quote not in _STRINGS:
            self._miss(at, '"`"')
            self._miss(at, r'"\""')
            return None
        found = _STRINGS[quote].match(self._text, at + 1)
        assert found is not None
        if not found[2]:
            self._mistake(len(self._text), "string", "Unterminated string literal")
            return None
        return found.end(), _ESCAPE.sub(r"\1", found[1]) if quote == '"' else found[1]

    # -- words -----------------------------------------------------------------------------

    def _spaced(self, at: int, words: Sequence[str], space_follows: bool = True) -> int | None:
        """Reads words with spaces before, between and behind them."""
        place: int | None = at
        for word in words:
            place = None if place is None else self._spaces(place)
            place = None if place is None else self._word(place, word)
        return self._spaces(place) if place is not None and space_follows else place

    def _word(self, at: int, word: str) -> int | None:
        if self._text.startswith(word, at):
            return at + len(word)
        self._miss(at, quote(word))
        return None

    def _spaces(self, at: int) -> int | None:
        end = self._optional_spaces(at)
        return end if end > at else None

    def _optional_spaces(self, at: int) -> int:
        found = _SPACES.match(self._text, at)
        assert found is not None
        self._miss(found.end(), _WHITESPACE_CLASS)
        return found.end()

    def _miss(self, at: int, wanted: str) -> None:
        if at > self._farthest:
            self._farthest = at
            self._wanted.clear()
        if at == self._farthest:
            self._wanted.add(wanted)

    def _mistake(self, at: int, rule: str, problem: str) -> None:
        self._mistakes[f'{self._place(at)}: rule "{rule}": {problem}'] = None


# -- what is asked of a value ------------------------------------------------------------------


def _equals(selector: _Selector, wanted: str, negated: bool) -> _Test:
    def test(item: Any, scope: _Scope) -> bool:
        value, shape = selector.find(item, scope)
        if shape is MISSING:
            return negated
        return _is_equal(value, shape, wanted, "matching") != negated

    return test


def _is_equal(value: Any, shape: GoKind, wanted: str, purpose: str) -> bool:
    if shape.kind == "string":
        return str(value or "") == wanted
    if shape.kind == "bool":
        if wanted not in _TRUE | _FALSE:
            raise _unreadable("ParseBool", wanted)
        return bool(value) == (wanted in _TRUE)
    if shape.kind in ("int", "int64", "uint64"):
        if not _GO_INTEGER.fullmatch(wanted) or (shape.kind == "uint64" and wanted[0] in "+-"):
            raise _unreadable("ParseUint" if shape.kind == "uint64" else "ParseInt", wanted)
        return int(value or 0) == int(wanted, 0 if len(wanted.lstrip("+-")) > 1 else 10)
    if shape.kind == "float64":
        try:
            return float(value or 0.0) == float(wanted)
        except ValueError:
            raise _unreadable("ParseFloat", wanted) from None
    raise FieldError(f"unable to find suitable primitive comparison function for {purpose}")


def _unreadable(function: str, wanted: str) -> FieldError:
    return FieldError(
        "error getting match value in expression: "
        f"strconv.{function}: parsing {quote(wanted)}: invalid syntax"
    )


def _contains(selector: _Selector, wanted: str, negated: bool) -> _Test:
    def test(item: Any, scope: _Scope) -> bool:
        value, shape = selector.find(item, scope)
        if shape is MISSING:
            return negated
        if shape.kind == "string":
            return (wanted in str(value or "")) != negated
        if shape.kind == "map":
            return (wanted in (value or {})) != negated
        elements = items_of((value, shape))
        if not isinstance(elements, list):
            raise FieldError(
                f"cannot perform in/contains operations on type {shape.kind} "
                f"for selector: {quote(str(selector))}"
            )
        same = (_is_equal(each, kind, wanted, "an element") for each, kind in elements)
        return any(same) != negated

    return test


def _matches(selector: _Selector, wanted: str, negated: bool) -> _Test:
    def test(item: Any, scope: _Scope) -> bool:
        value, shape = selector.find(item, scope)
        if shape is MISSING:
            return negated
        if shape.kind != "string":
            raise FieldError(f"value of type {shape.kind} is not convertible to []byte")
        try:
            pattern = compile_pattern(wanted)
        except PatternError as error:
            raise FieldError(
                f"failed to compile regular expression {quote(wanted)}: {error}"
            ) from error
        return pattern.search(str(value or ""), _MAX_SEARCH_STEPS) != negated

    return test


def _is_empty(selector: _Selector, wanted: str, negated: bool) -> _Test:
    def test(item: Any, scope: _Scope) -> bool:
        value, shape = selector.find(item, scope)
        if shape is MISSING:
            return not negated
        if shape.kind not in ("string", "list", "map"):
            raise FieldError(
                f"cannot perform is-empty operations on type {shape.kind} "
                f"for selector: {quote(str(selector))}"
            )
        return (not value) != negated

    return test


def _is_nil(selector: _Selector, wanted: str, negated: bool) -> _Test:
    def test(item: Any, scope: _Scope) -> bool:
        value, _ = selector.find(item, scope)
        return (value is None) != negated

    return test


def _bindings(
    selector: _Selector, names: Sequence[str], item: Any, scope: _Scope
) -> list[dict[str, Found]]:
    """Returns what each round of `any` or `all` binds: an element, or a place or key and it."""
    found = selector.find(item, scope)
    elements = items_of(found)
    if elements is None:
        raise FieldError(
            f"cannot perform any/all operations on type {found[1].kind} "
            f"for selector: {quote(str(selector))}"
        )
    if isinstance(elements, dict):
        keys: list[Found] = [(key, GoKind("string")) for key in elements]
        values = list(elements.values())
        single = keys
    else:
        keys = [(place, GoKind("int")) for place in range(len(elements))]
        values = single = elements
    if len(names) == 1:
        return [{names[0]: each} for each in single]
    return [{names[0]: key, names[1]: each} for key, each in zip(keys, values, strict=True)]


_Make = Callable[[_Selector, str, bool], _Test]
_COMPARISONS: tuple[tuple[tuple[str, ...], _Make, bool], ...] = (
    (("==",), _equals, False),
    (("!=",), _equals, True),
    (("contains",), _contains, False),
    (("not", "contains"), _contains, True),
    (("matches",), _matches, False),
    (("not", "matches"), _matches, True),
)
_STATES: tuple[tuple[tuple[str, ...], _Make, bool], ...] = (
    (("is", "empty"), _is_empty, False),
    (("is", "not", "empty"), _is_empty, True),
    (("is", "nil"), _is_nil, False),
    (("is", "not", "nil"), _is_nil, True),
)

__all__ = ["FieldError", "Predicate", "parse_filter"]
