"""The filter language of list requests (that of go-bexpr): text in, a predicate out.

expression = conjunction ["or" expression] | quantifier
conjunction = negation ["and" conjunction]
negation = "not" negation | "(" expression ")" | match
match = selector operator value | selector "is" ["not"] ("empty" | "nil")
      | value ["not"] "in" selector
operator = "==" | "!=" | ["not"] "contains" | ["not"] "matches"
quantifier = ("any" | "all") selector "as" names "{" expression "}"
names = name | name "," name | name "," "_" | "_" "," name
selector = name { "." (name | digits) | "[" string "]" } | "\"/json/pointer\""

A mistake is told as the reference's parser tells it: at the farthest place that was read, with
everything that could have followed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from orchgit.errors import InvalidInputError
from orchgit.filter_comparisons import (
    BoundNames,
    FieldSelector,
    Test,
    bindings,
    contains,
    equals,
    is_empty,
    is_nil,
    matches,
)
from orchgit.filter_values import FieldError, Scope
from orchgit.go_quote import quote, unquote

Predicate = Callable[[Any], bool]

_PREFIX = "failed to create result paginator: "
_MAX_CHARACTERS = 4096
_MAX_DEPTH = 64
_MAX_ROUNDS = 500_000
"""Of `any` and `all` over all that a filter is asked for: two seconds of a thread."""

_END = "!."
"""No character follows."""
_SPACES = re.compile(r"[ \t\r\n]*")
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_/]*")
_SEGMENT = re.compile(r"(?:[^\W_]|[-_.~:|])+")
"""Of a JSON pointer: letters and numbers of any script."""
_DIGITS = re.compile(r"[0-9]+")
_WHITESPACE_CLASS = r"[ \t\r\n]"
_SEGMENT_CLASS = r"[\pL\pN-_.~:|]"
_QUOTE = r'"\""'


def parse_filter(text: str) -> Predicate:
    """Parses an expression into a predicate.

    Raises InvalidInputError with the position of the first mistake. The predicate is for one list.
    It raises FieldError for a selector that names no field, for a comparison that its value does
    not allow, and when `any` and `all` have looked at too many elements.
    """
    if len(text) > _MAX_CHARACTERS:
        raise InvalidInputError(f"{_PREFIX}filter longer than {_MAX_CHARACTERS} characters")
    test = _Parser(text).whole()
    return lambda item: test(item, {})


_Make = Callable[[FieldSelector, str, bool], Test]
_COMPARISONS: tuple[tuple[tuple[str, ...], _Make, bool], ...] = (
    (("==",), equals, False),
    (("!=",), equals, True),
    (("contains",), contains, False),
    (("not", "contains"), contains, True),
    (("matches",), matches, False),
    (("not", "matches"), matches, True),
)
_STATES: tuple[tuple[tuple[str, ...], _Make, bool], ...] = (
    (("is", "empty"), is_empty, False),
    (("is", "not", "empty"), is_empty, True),
    (("is", "nil"), is_nil, False),
    (("is", "not", "nil"), is_nil, True),
)


class _Rounds:
    """What `any` and `all` may still look at: one inside the other multiplies."""

    def __init__(self) -> None:
        self._left = _MAX_ROUNDS

    def spend(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise FieldError(
                f"the filter's any and all look at more than {_MAX_ROUNDS} elements; "
                "list less, or put fewer inside each other"
            )


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
        self._rounds = _Rounds()

    def whole(self) -> Test:
        found = self._expression(self._optional_spaces(0))
        if found is not None:
            end = self._optional_spaces(found[0])
            if end == len(self._text) and not self._mistakes:
                return found[1]
            self._miss(end, _END)
        raise InvalidInputError(f"{_PREFIX}failed to read filter expression: {self._problem()}")

    def _problem(self) -> str:
        if self._mistakes:
            return "\n".join(self._mistakes)
        wanted = sorted(self._wanted - {_END})
        if _END in self._wanted:
            wanted.append("EOF")
        last = wanted.pop()
        listed = f"{', '.join(wanted)} or {last}" if wanted else last
        return f"{self._place(self._farthest)}: no match found, expected: {listed}"

    def _place(self, at: int) -> str:
        """A line feed belongs to the line that it begins."""
        before = self._text[:at]
        offset = len(before.encode())
        if self._text[at : at + 1] == "\n":
            return f"{before.count(chr(10)) + 2}:0 ({offset})"
        line_start = before.rfind("\n") + 1
        return f"{before.count(chr(10)) + 1}:{at - line_start + 1} ({offset})"

    # -- grammar ---------------------------------------------------------------------------

    def _expression(self, at: int) -> tuple[int, Test] | None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise InvalidInputError(f"{_PREFIX}filter with more than {_MAX_DEPTH} nested levels")
        end, tests, missing_at = self._joined(at, self._conjunction, "or")
        last = None if missing_at is None else self._quantifier(missing_at)
        self._depth -= 1
        if last is not None:
            end = last[0]
            tests.append(last[1])
        return (end, _combined(any, tests)) if tests else None

    def _conjunction(self, at: int) -> tuple[int, Test] | None:
        end, tests, _ = self._joined(at, self._negation, "and")
        return (end, _combined(all, tests)) if tests else None

    def _joined(
        self, at: int, operand: Callable[[int], tuple[int, Test] | None], word: str
    ) -> tuple[int, list[Test], int | None]:
        """Reads operands with a word between. Returns their end, the operands, and the place at
        which one is missing."""
        end, tests = at, list[Test]()
        after: int | None = at
        while after is not None and (found := operand(after)) is not None:
            end, test = found
            tests.append(test)
            after = self._spaced(end, (word,))
        return end, tests, after

    def _negation(self, at: int) -> tuple[int, Test] | None:
        """A field may be named `not`."""
        begins = [at]
        while (after := self._word(begins[-1], "not")) is not None:
            after = self._spaces(after)
            if after is None:
                break
            begins.append(after)
        while begins:
            found = self._group(begins.pop())
            if found is not None:
                end, test = found
                return end, _negated(test) if len(begins) % 2 else test
        return None

    def _group(self, at: int) -> tuple[int, Test] | None:
        after = self._word(at, "(")
        if after is None:
            return self._match(at)
        found = self._expression(self._optional_spaces(after))
        if found is None:
            return None
        end = self._optional_spaces(found[0])
        closed = self._word(end, ")")
        if closed is None:
            self._mistake(end, "grouping", "Unmatched parentheses")
            return None
        return closed, found[1]

    def _quantifier(self, at: int) -> tuple[int, Test] | None:
        combine: Callable[[Iterable[bool]], bool] = any
        after = self._word(at, "any")
        if after is None:
            after, combine = self._word(at, "all"), all
        after = None if after is None else self._spaces(after)
        if after is None:
            return None
        selected = self._selector(after)
        after = None if selected is None else self._spaced(selected[0], ("as",))
        names = None if after is None else self._names(after)
        if selected is None or names is None:
            return None
        opened = self._word(self._optional_spaces(names[0]), "{")
        inner = None if opened is None else self._expression(self._optional_spaces(opened))
        closed = None if inner is None else self._word(self._optional_spaces(inner[0]), "}")
        if closed is None or inner is None:
            return None
        selector, bound, test, rounds = selected[1], names[1], inner[1], self._rounds

        def quantified(item: Any, scope: Scope) -> bool:
            found = bindings(selector, bound, item, scope)
            rounds.spend(len(found))
            return combine(test(item, {**scope, **each}) for each in found)

        return closed, quantified

    def _names(self, at: int) -> tuple[int, BoundNames] | None:
        first = self._name(at)
        if first is None:
            ignored = self._word(at, "_")
            comma = None if ignored is None else self._comma(ignored)
            only = None if comma is None else self._name(comma)
            return None if only is None else (only[0], BoundNames(element=only[1]))
        comma = self._comma(first[0])
        if comma is not None:
            second = self._name(comma)
            if second is not None:
                return second[0], BoundNames(place=first[1], element=second[1])
            ignored = self._word(comma, "_")
            if ignored is not None:
                return ignored, BoundNames(place=first[1])
        return first[0], BoundNames(either=first[1])

    def _comma(self, at: int) -> int | None:
        after = self._word(self._optional_spaces(at), ",")
        return None if after is None else self._optional_spaces(after)

    def _match(self, at: int) -> tuple[int, Test] | None:
        selected = self._selector(at)
        if selected is not None:
            found = self._compared(*selected) or self._stated(*selected)
            if found is not None:
                return found
        return self._membership(at)

    def _compared(self, at: int, selector: FieldSelector) -> tuple[int, Test] | None:
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

    def _stated(self, at: int, selector: FieldSelector) -> tuple[int, Test] | None:
        for words, test, negated in _STATES:
            after = self._spaced(at, words, space_follows=False)
            if after is not None:
                return after, test(selector, "", negated)
        return None

    def _membership(self, at: int) -> tuple[int, Test] | None:
        value = self._value(at)
        if value is None:
            return None
        for words, negated in ((("in",), False), (("not", "in"), True)):
            after = self._spaced(value[0], words)
            if after is None:
                continue
            selected = self._selector(after)
            if selected is not None:
                return selected[0], contains(selected[1], value[1], negated)
            self._mistake(after, "match", "Invalid selector")
        return None

    # -- selectors and values --------------------------------------------------------------

    def _selector(self, at: int) -> tuple[int, FieldSelector] | None:
        return self._dotted_name(at) or self._json_pointer(at)

    def _dotted_name(self, at: int) -> tuple[int, FieldSelector] | None:
        first = self._name(at)
        if first is None:
            return None
        end, name = first
        path = [name]
        while True:
            dot = self._word(end, ".")
            part = self._indexed(end) if dot is None else self._name(dot) or self._digits(dot)
            if part is None:
                return end, FieldSelector(tuple(path))
            end = part[0]
            path.append(part[1])

    def _digits(self, at: int) -> tuple[int, str] | None:
        found = _DIGITS.match(self._text, at)
        self._miss(found.end() if found else at, "[0-9]")
        return None if found is None else (found.end(), found[0])

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
        found = _NAME.match(self._text, at)
        if found is None:
            self._miss(at, "[a-zA-Z]")
            return None
        self._miss(found.end(), "[a-zA-Z0-9_/]")
        return found.end(), found[0]

    def _json_pointer(self, at: int) -> tuple[int, FieldSelector] | None:
        after = self._word(at, '"')
        if after is None:
            return None
        path = []
        while (segment := self._segment(after)) is not None:
            after = segment[0]
            path.append(segment[1].replace("~1", "/").replace("~0", "~"))
        closed = self._word(after, '"')
        return None if closed is None else (closed, FieldSelector(tuple(path) or ("",), "/"))

    def _segment(self, at: int) -> tuple[int, str] | None:
        after = self._word(at, "/")
        found = None if after is None else _SEGMENT.match(self._text, after)
        if after is not None:
            self._miss(found.end() if found else after, _SEGMENT_CLASS)
        return None if found is None else (found.end(), found[0])

    def _value(self, at: int) -> tuple[int, str] | None:
        name = self._dotted_name(at)
        if name is not None:
            return name[0], str(name[1])
        return self._number(at) or self._string(at)

    def _number(self, at: int) -> tuple[int, str] | None:
        end = self._word(at, "-") or at
        digits = _DIGITS.match(self._text, end)
        if digits is None:
            self._miss(end, '"0"')
            self._miss(end, "[1-9]")
            return None
        end = end + 1 if digits[0][0] == "0" else digits.end()
        if digits[0][0] != "0":
            self._miss(end, "[0-9]")
        point = self._word(end, ".")
        fraction = None if point is None else self._digits(point)
        end = end if fraction is None else fraction[0]
        if end < len(self._text) and self._optional_spaces(end) == end:
            self._miss(end, _END)
            if self._word(end, ")") is None:
                self._mistake(end, "number", "Invalid number literal")
                return None
        return end, self._text[at:end]

    def _string(self, at: int) -> tuple[int, str] | None:
        mark = self._text[at : at + 1]
        if not mark or mark not in '`"':
            self._miss(at, '"`"')
            self._miss(at, _QUOTE)
            return None
        end = self._text.find(mark, at + 1)
        if end < 0:
            self._mistake(len(self._text), "string", "Unterminated string literal")
            return None
        try:
            return end + 1, unquote(self._text[at : end + 1])
        except ValueError as error:
            self._mistake(at, "string", str(error))
            return end + 1, ""

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


def _combined(combine: Callable[[Iterable[bool]], bool], tests: Sequence[Test]) -> Test:
    if len(tests) == 1:
        return tests[0]
    return lambda item, scope: combine(test(item, scope) for test in tests)


def _negated(test: Test) -> Test:
    return lambda item, scope: not test(item, scope)


__all__ = ["FieldError", "Predicate", "parse_filter"]
