"""Cron expressions as Nomad reads them, and the local times at which they are due.

Five fields: minute, hour, day of month, month, day of week; a sixth is the year, and with seven the
first is the second. A field lists values, ranges and steps: `5`, `1-5`, `*/15`, `8-18/2`, `10/20`;
`?` is `*`. Months and days of the week have names, short or long. Days of a month may be `L` (the
last), `15W` (the workday nearest to the 15th) and `LW` (the last workday); days of the week `5L`
(the last Friday) and `1#2` (the second Monday); 0 and 7 are Sunday. Where both kinds of days are
limited, a day that meets either is due.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache

from orchgit.errors import InvalidInputError
from orchgit.whole_number import whole_number

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_SATURDAY, _SUNDAY = 6, 0


class CronError(InvalidInputError):
    """The text is no cron expression; the message says why, in the words of Nomad's library."""


@dataclass(frozen=True, slots=True)
class _Field:
    """`names` stand for the values from `least` on, by their first letters or whole."""

    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()
    most_step: int = 0


_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_SECOND = _Field("second", 0, 59)
_MINUTE = _Field("minute", 0, 59)
_HOUR = _Field("hour", 0, 23)
_DAY_OF_MONTH = _Field("day-of-month", 1, 31)
_MONTH = _Field("month", 1, 12, _MONTHS)
_DAY_OF_WEEK = _Field("day-of-week", 0, 6, _WEEKDAYS)
_YEAR = _Field("year", 1970, 2099, most_step=99)

_PART = re.compile(r"(\*|\?|\w+)(?:-(\w+))?(?:/(\d+))?", re.ASCII)
_WORKDAY = re.compile(r"(\d+)W", re.ASCII | re.IGNORECASE)
_LAST_WEEKDAY = re.compile(r"(\w+)L", re.ASCII | re.IGNORECASE)
_NUMBERED_WEEKDAY = re.compile(r"(\w+)#([1-5])", re.ASCII)


@dataclass(frozen=True, slots=True)
class _DaysOfMonth:
    """`days` is None where every day will do."""

    days: frozenset[int] | None
    last: bool = False
    near: frozenset[int] = frozenset()
    """The workdays nearest to these are due."""
    last_workday: bool = False

    @staticmethod
    def parse(text: str) -> _DaysOfMonth:
        days: set[int] = set()
        near: set[int] = set()
        words = set()
        for part in text.split(","):
            workday = _WORKDAY.fullmatch(part)
            if part.upper() in ("L", "LW"):
                words.add(part.upper())
            elif workday is not None:
                near.add(_value(_DAY_OF_MONTH, workday[1], part))
            else:
                days |= _values_of_part(_DAY_OF_MONTH, part)
        return _DaysOfMonth(
            None if _is_open(text) else frozenset(days),
            "L" in words,
            frozenset(near),
            "LW" in words,
        )

    def of(self, first_weekday: int, length: int) -> set[int]:
        """The days of a month that begins on that day of the week and has so many days."""
        found = {day for day in self.days or () if day <= length}
        found |= {_workday(day, first_weekday, length) for day in self.near if day <= length}
        if self.last:
            found.add(length)
        if self.last_workday:
            found.add(_workday(length, first_weekday, length))
        return found


@dataclass(frozen=True, slots=True)
class _DaysOfWeek:
    """Days of the week from 0, Sunday. `days` is None where every day will do."""

    days: frozenset[int] | None
    last: frozenset[int] = frozenset()
    numbered: frozenset[tuple[int, int]] = frozenset()
    """(day of the week, which of the month)."""

    @staticmethod
    def parse(text: str) -> _DaysOfWeek:
        days: set[int] = set()
        last: set[int] = set()
        numbered: set[tuple[int, int]] = set()
        for part in text.split(","):
            if (found := _LAST_WEEKDAY.fullmatch(part)) is not None:
                last.add(_value(_DAY_OF_WEEK, found[1], part) % 7)
            elif (found := _NUMBERED_WEEKDAY.fullmatch(part)) is not None:
                numbered.add((_value(_DAY_OF_WEEK, found[1], part) % 7, int(found[2])))
            else:
                days |= {day % 7 for day in _values_of_part(_DAY_OF_WEEK, part)}
        return _DaysOfWeek(
            None if _is_open(text) else frozenset(days), frozenset(last), frozenset(numbered)
        )

    def of(self, first_weekday: int, length: int) -> set[int]:
        """The days of a month that begins on that day of the week and has so many days."""
        found: set[int] = set()
        for day in range(1, length + 1):
            weekday = (first_weekday + day - 1) % 7
            number = (day - 1) // 7 + 1
            is_last = weekday in self.last and day + 7 > length
            if is_last or weekday in (self.days or ()) or (weekday, number) in self.numbered:
                found.add(day)
        return found


@dataclass(frozen=True, slots=True)
class CronExpression:
    """When something is due, in local time. The values of each field are sorted."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days_of_month: _DaysOfMonth
    months: tuple[int, ...]
    days_of_week: _DaysOfWeek
    years: tuple[int, ...]

    def moments(self, after: datetime) -> Iterator[datetime]:
        """Yields the local times after `after`, in order, without a zone."""
        begin = after.replace(microsecond=0) + timedelta(seconds=1)
        for day in self._days(begin.date()):
            is_first = day == begin.date()
            for hour in self.hours[bisect_left(self.hours, begin.hour) if is_first else 0 :]:
                in_hour = is_first and hour == begin.hour
                first = bisect_left(self.minutes, begin.minute) if in_hour else 0
                for minute in self.minutes[first:]:
                    in_minute = in_hour and minute == begin.minute
                    first = bisect_left(self.seconds, begin.second) if in_minute else 0
                    for second in self.seconds[first:]:
                        yield datetime(day.year, day.month, day.day, hour, minute, second)

    def _days(self, begin: date) -> Iterator[date]:
        for year in self.years[bisect_left(self.years, begin.year) :]:
            first = bisect_left(self.months, begin.month) if year == begin.year else 0
            for month in self.months[first:]:
                for day in sorted(self._days_of(year, month)):
                    found = date(year, month, day)
                    if found >= begin:
                        yield found

    def _days_of(self, year: int, month: int) -> set[int]:
        monday_based, length = monthrange(year, month)
        first_weekday = (monday_based + 1) % 7
        every_day, every_weekday = self.days_of_month.days is None, self.days_of_week.days is None
        if every_day and every_weekday:
            return set(range(1, length + 1))
        of_month = set() if every_day else self.days_of_month.of(first_weekday, length)
        of_week = set() if every_weekday else self.days_of_week.of(first_weekday, length)
        return of_month | of_week


@lru_cache(256)
def parse_cron(spec: str) -> CronExpression:
    """Raises CronError."""
    fields = _MACROS.get(spec.strip().lower(), spec).split()
    if len(fields) < 5 or not all(field.strip(",") for field in fields):
        raise CronError("missing field(s)")
    if len(fields) > 7:
        raise CronError(f"{len(fields)} fields, of which the last {len(fields) - 7} mean nothing")
    second = fields.pop(0) if len(fields) == 7 else "0"
    year = fields.pop() if len(fields) == 6 else "*"
    minute, hour, day_of_month, month, day_of_week = fields
    return CronExpression(
        _values(_SECOND, second),
        _values(_MINUTE, minute),
        _values(_HOUR, hour),
        _DaysOfMonth.parse(day_of_month),
        _values(_MONTH, month),
        _DaysOfWeek.parse(day_of_week),
        _values(_YEAR, year),
    )


def _workday(day: int, first_weekday: int, length: int) -> int:
    """The workday of the same month that is nearest to `day`."""
    weekday = (first_weekday + day - 1) % 7
    if weekday == _SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == _SUNDAY:
        return day + 1 if day < length else day - 2
    return day


def _values(field: _Field, text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for part in text.split(","):
        found |= _values_of_part(field, part)
    return tuple(sorted(found))


def _is_open(text: str) -> bool:
    """Whether a list of days names every day by a star."""
    return not {"*", "?"}.isdisjoint(text.split(","))


def _values_of_part(field: _Field, part: str) -> set[int]:
    """Sunday may be 7 at the end of a range."""
    if not part:
        return set()
    found = _PART.fullmatch(part)
    if found is None:
        raise _syntax_error(field, part)
    start, end, step = found.groups()
    if start in ("*", "?"):
        if end is not None:
            raise _syntax_error(field, part)
        first, last = field.least, field.most
    else:
        first = _value(field, start, part)
        # A day of the week that is not the end of a range counts from Sunday, 0.
        first = first % 7 if field is _DAY_OF_WEEK and (end or step) else first
        last = _value(field, end, part) if end else field.most if step else first
        if last < first:
            raise _syntax_error(field, part)
    by = whole_number(step) if step else 1
    if not by or by > (field.most_step or field.most):
        raise CronError(f"invalid interval {part}")
    return set(range(first, last + 1, by))


def _value(field: _Field, text: str, part: str) -> int:
    number = whole_number(text)
    if number is None:
        short = (at for at, name in enumerate(field.names) if text.lower() in (name, name[:3]))
        number = next(short, None)
        if number is not None:
            return field.least + number
    most = 7 if field is _DAY_OF_WEEK else field.most
    if number is None or not field.least <= number <= most:
        raise _syntax_error(field, part)
    return number


def _syntax_error(field: _Field, part: str) -> CronError:
    return CronError(f"syntax error in {field.name} field: '{part}'")
