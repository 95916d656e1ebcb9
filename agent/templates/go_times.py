"""Times and durations in templates, with the methods that Go's have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from agent.templates.helpers.numbers import wrapped
from agent.templates.time_layouts import MONTHS, NS_PER_S, WEEKDAYS, Moment
from orchgit.errors import InvalidInputError
from orchgit.go_templates.functions import fn, text_fn
from orchgit.go_templates.values import GoStruct, Int64, NamedInt

_TIME = "time.Time"
_DURATION = "time.Duration"
_MOST_NS = (1 << 63) - 1
_YEAR_1_NS = -62_135_596_800 * NS_PER_S


class GoMonth(NamedInt):
    go_type: ClassVar[str] = "time.Month"

    def go_text(self) -> str:
        return MONTHS[self - 1]


class GoWeekday(NamedInt):
    go_type: ClassVar[str] = "time.Weekday"

    def go_text(self) -> str:
        return WEEKDAYS[self]


def _truncated(ns: int, unit_ns: int) -> int:
    return ns - (abs(ns) % unit_ns) * (1 if ns >= 0 else -1) if unit_ns > 0 else ns


def _rounded(ns: int, unit_ns: int) -> int:
    """Returns the nearest multiple; of two, the one further from zero."""
    if unit_ns <= 0:
        return ns
    size = (2 * abs(ns) + unit_ns) // (2 * unit_ns) * unit_ns
    return size if ns >= 0 else -size


class GoDuration(NamedInt):
    """A length of time in nanoseconds."""

    go_type: ClassVar[str] = _DURATION

    def go_text(self) -> str:
        from orchgit.durations import to_text  # seldom used, and slow to load

        return to_text(int(self))

    def go_yaml(self) -> str:
        return self.go_text()

    def go_method(self, name: str) -> Callable[..., Any] | None:
        return {  # type: ignore[return-value]
            "String": self.go_text,
            "Nanoseconds": lambda: Int64(self),
            "Microseconds": lambda: Int64(_truncated(self, 1_000) // 1_000),
            "Milliseconds": lambda: Int64(_truncated(self, 1_000_000) // 1_000_000),
            "Seconds": lambda: self / NS_PER_S,
            "Minutes": lambda: self / (60 * NS_PER_S),
            "Hours": lambda: self / (3600 * NS_PER_S),
            "Abs": lambda: GoDuration(abs(self)),
            "Round": fn(lambda unit: GoDuration(_rounded(self, unit)), _DURATION),
            "Truncate": fn(lambda unit: GoDuration(_truncated(self, unit)), _DURATION),
        }.get(name)


class GoLocation(GoStruct):
    go_type: ClassVar[str] = "*time.Location"

    def __init__(self, name: str) -> None:
        self._name = name

    def go_text(self) -> str:
        return self._name


class GoTime(GoStruct):
    go_type: ClassVar[str] = _TIME

    def __init__(self, moment: Moment) -> None:
        self.moment = moment

    @property
    def unix_s(self) -> int:
        return self.moment.ns // NS_PER_S

    def go_identity(self) -> object:
        return self.moment.ns, self.moment.offset_s, self.moment.zone

    def go_text(self) -> str:
        return self.moment.text()

    def go_yaml(self) -> str:
        return self.moment.rfc3339()

    def go_json(self) -> str:
        if not 0 <= self.moment.year <= 9999:
            raise InvalidInputError(
                "json: error calling MarshalJSON for type time.Time: Time.MarshalJSON: year "
                "outside of range [0,9999]"
            )
        return self.moment.rfc3339()

    def go_method(self, name: str) -> Callable[..., Any] | None:
        moment = self.moment
        return {  # type: ignore[return-value]
            "Format": text_fn(moment.format),
            "String": moment.text,
            "Unix": lambda: Int64(self.unix_s),
            "UnixMilli": lambda: Int64(moment.ns // 1_000_000),
            "UnixMicro": lambda: wrapped(moment.ns // 1_000),
            "UnixNano": lambda: wrapped(moment.ns),
            "Year": lambda: moment.year,
            "Month": lambda: GoMonth(moment.month),
            "Day": lambda: moment.day,
            "Hour": lambda: moment.hour,
            "Minute": lambda: moment.minute,
            "Second": lambda: moment.second,
            "Nanosecond": lambda: moment.nanosecond,
            "Weekday": lambda: GoWeekday(moment.weekday),
            "YearDay": lambda: moment.year_day,
            "IsZero": lambda: moment.ns == _YEAR_1_NS,
            "IsDST": lambda: False,
            "UTC": lambda: GoTime(Moment(moment.ns)),
            "Local": lambda: GoTime(Moment(moment.ns)),
            "Location": lambda: GoLocation("Local" if moment.zone == "UTC" else moment.zone),
            "Add": fn(lambda by: GoTime(moment.at(moment.ns + by)), _DURATION),
            "AddDate": fn(lambda *by: GoTime(moment.plus_date(*by)), "int", "int", "int"),
            "Sub": fn(
                lambda other: GoDuration(
                    max(-_MOST_NS - 1, min(_MOST_NS, moment.ns - other.moment.ns))
                ),
                _TIME,
            ),
            "After": fn(lambda other: moment.ns > other.moment.ns, _TIME),
            "Before": fn(lambda other: moment.ns < other.moment.ns, _TIME),
            "Equal": fn(lambda other: moment.ns == other.moment.ns, _TIME),
            "Compare": fn(
                lambda other: (moment.ns > other.moment.ns) - (moment.ns < other.moment.ns), _TIME
            ),
            "Truncate": fn(lambda unit: self._cut(_truncated, unit), _DURATION),
            "Round": fn(lambda unit: self._cut(_rounded, unit), _DURATION),
        }.get(name)

    def _cut(self, work: Callable[[int, int], int], unit_ns: int) -> GoTime:
        """Multiples of a unit count from the first of January of the year 1."""
        cut = work(self.moment.ns - _YEAR_1_NS, unit_ns) + _YEAR_1_NS
        return GoTime(self.moment.at(cut))


ZERO_TIME = GoTime(Moment(_YEAR_1_NS))
