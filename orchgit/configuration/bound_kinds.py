"""What a key of the configuration may take: numbers, lengths of time, texts, lists and maps.

A bound says what is wrong with a value in a sentence of its own, which follows the key's name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from orchgit.durations import DurationError, parse_ns, to_text
from orchgit.errors import OrchgitError

_MOST_SHOWN = 200
_NAMED = re.compile(r"cannot use [^:\"']*: ")


class Bound(Protocol):
    """What a key takes."""

    def problem(self, value: object) -> str:
        """Returns what is wrong with the value, as "it must not be negative"; "" if nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Whole:
    """A number, whole or not, from `least` to `most`; `meaning` says more of the limits."""

    least: float = 0
    most: float = math.inf
    above: float = -math.inf
    """The number must be greater than this."""
    meaning: str = ""

    def problem(self, value: object) -> str:
        assert isinstance(value, int | float)
        if self.least <= value <= self.most and value > self.above and math.isfinite(value):
            return ""
        remark = f" ({self.meaning})" if self.meaning else ""
        return f"it must {self._rule()}{remark}, not {value}"

    def _rule(self) -> str:
        if self.most < math.inf:
            if self.above < self.least:
                return f"be {self.least:g} to {self.most:.0f}"
            return f"be more than {self.above:g} and at most {self.most:.0f}"
        if self.above >= self.least:
            return f"be more than {self.above:g}"
        return "not be negative" if self.least == 0 else f"be at least {self.least:g}"


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time as text."""

    least_ns: int = 0
    most_ns: int | None = None
    zero: bool = True
    """Whether 0 has a meaning."""
    empty: bool = False
    """Whether an empty text is taken for the default, or for none."""
    meaning: str = ""

    def problem(self, value: object) -> str:
        text = str(value)
        if not text and self.empty:
            return ""
        try:
            length_ns = parse_ns(text)
        except DurationError as error:
            return f'it must be a duration, as "30s" or "1h30m": {error}'
        within = self.least_ns <= length_ns and (self.most_ns is None or length_ns <= self.most_ns)
        if self.zero if length_ns == 0 else within:
            return ""
        remark = f" ({self.meaning})" if self.meaning else ""
        return f'it must {self._rule()}{remark}, not "{text}"'

    def _rule(self) -> str:
        or_zero = ", or 0s" if self.zero and self.least_ns else ""
        if self.most_ns is not None:
            return f"be between {to_text(self.least_ns)} and {to_text(self.most_ns)}{or_zero}"
        if self.least_ns:
            return f"be at least {to_text(self.least_ns)}{or_zero}"
        return "not be negative" if self.zero else "be more than zero"


@dataclass(frozen=True, slots=True)
class TextBound:
    """A text of which `wrong` says what is wrong, "" if nothing."""

    wrong: Callable[[str], str]
    empty: bool = True
    """Whether an empty text is taken for the default, or for none."""

    def problem(self, value: object) -> str:
        text = str(value)
        if not text and self.empty:
            return ""
        if any(ord(each) < 32 or ord(each) == 127 for each in text):
            return f"it must have no control characters: {text[:_MOST_SHOWN]!r}"
        return self.wrong(text)


@dataclass(frozen=True, slots=True)
class Each:
    """A list or the values of a map, each of which the inner bound takes."""

    bound: Bound

    def problem(self, value: object) -> str:
        values: Sequence[object] = ()
        if isinstance(value, Mapping):
            values = list(value.values())
        elif isinstance(value, Sequence):
            values = value
        return next((wrong for each in values if (wrong := self.bound.problem(each))), "")


@dataclass(frozen=True, slots=True)
class Names:
    """A map whose keys `wrong` judges, and whose values the bound takes."""

    wrong: Callable[[str], str]
    values: Bound | None = None

    def problem(self, value: object) -> str:
        assert isinstance(value, Mapping)
        wrong = next((wrong for name in value if (wrong := self.wrong(str(name)))), "")
        return wrong or (Each(self.values).problem(value) if self.values else "")


@dataclass(frozen=True, slots=True)
class Checked:
    """A value that `check` raises InvalidInputError for where it cannot be used."""

    check: Callable[[str], object]
    empty: bool = True

    def problem(self, value: object) -> str:
        if not value and self.empty:
            return ""
        return wrong_by(self.check, str(value))


def wrong_by(check: Callable[[str], object], text: str) -> str:
    """Returns the sentence with which `check` refuses the text, without the name of the key."""
    try:
        check(text)
    except OrchgitError as error:
        return _NAMED.sub("", error.message, count=1)
    return ""


def one_of(*names: str) -> TextBound:
    """Returns the bound of a text that is one of these."""

    def wrong(text: str) -> str:
        if text in names:
            return ""
        listed = ", ".join(f'"{name}"' for name in names[:-1])
        known = f'{listed} or "{names[-1]}"' if listed else f'"{names[-1]}"'
        return f'it must be {known}, not "{text}"'

    return TextBound(wrong)


def filled(what: str) -> TextBound:
    """Returns the bound of a text that is not empty."""
    return TextBound(
        lambda text: "" if text.strip() else f"it must not have an empty {what}", empty=False
    )
