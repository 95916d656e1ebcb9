"""Times by Go's layouts ("2006-01-02 15:04:05"), of any year."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from orchgit.errors import InvalidInputError
from orchgit.go_templates.values import to_bytes

NS_PER_S = 1_000_000_000
_DAY_S = 86_400
_DAYS_TO_1970 = 719_468
"""From the first of March of the year 0."""
_DAYS_OF_400_YEARS = 146_097
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_PART = re.compile(
    r"January|Jan(?![a-z])|Monday|Mon(?![a-z])|MST|2006|__2|_2(?!006)|002|01|02|03|04|05|06|15"
    r"|1|2|3|4|5|PM|pm|Z07:00:00|Z070000|Z07:00|Z0700|Z07|-07:00:00|-070000|-07:00|-0700|-07"
    r"|[.,]0+(?!\d)|[.,]9+(?!\d)"
)


def days_of(year: int, month: int, day: int) -> int:
    """Returns the days from 1970 to the date, which may lie before; before the year 1 comes 0."""
    years = year - (month <= 2)
    cycle, in_cycle = divmod(years, 400)
    in_year = (153 * ((month - 3) % 12) + 2) // 5 + day - 1
    in_cycle = in_cycle * 365 + in_cycle // 4 - in_cycle // 100 + in_year
    return cycle * _DAYS_OF_400_YEARS + in_cycle - _DAYS_TO_1970


def date_of(days: int) -> tuple[int, int, int]:
    """Returns (year, month, day) of the day that is so many days after 1970."""
    cycle, day = divmod(days + _DAYS_TO_1970, _DAYS_OF_400_YEARS)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    in_year = day - (365 * year + year // 4 - year // 100)
    month = (5 * in_year + 2) // 153
    of_month = in_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return cycle * 400 + year + (month <= 2), month, of_month


def _days_in(year: int, month: int) -> int:
    return days_of(year + month // 12, month % 12 + 1, 1) - days_of(year, month, 1)


class Moment:
    """One time in nanoseconds since 1970, and the offset and name of the zone that it is shown
    in."""

    def __init__(self, ns: int, offset_s: int = 0, zone: str = "UTC") -> None:
        self.ns = ns
        self.offset_s = offset_s
        self.zone = zone
        days, second = divmod(ns // NS_PER_S + offset_s, _DAY_S)
        self.year, self.month, self.day = date_of(days)
        self.hour, self.minute, self.second = second // 3600, second // 60 % 60, second % 60
        self.nanosecond = ns % NS_PER_S
        self.weekday = (days + 4) % 7
        self.year_day = days - days_of(self.year, 1, 1) + 1

    def at(self, ns: int) -> Moment:
        """Returns another time in the same zone."""
        return Moment(ns, self.offset_s, self.zone)

    def plus_date(self, years: int, months: int, days: int) -> Moment:
        """Returns the time so much later; a day that its month does not have is one of the next."""
        more, month = divmod(self.month - 1 + months, 12)
        day = days_of(self.year + years + more, month + 1, 1) + self.day - 1 + days
        second = (self.ns // NS_PER_S + self.offset_s) % _DAY_S
        return self.at((day * _DAY_S + second - self.offset_s) * NS_PER_S + self.nanosecond)

    def format(self, layout: str) -> str:
        """Returns the time by the layout; what is no part of a time stays as it is."""
        return _PART.sub(self._part, layout)

    def text(self) -> str:
        return self.format("2006-01-02 15:04:05.999999999 -0700 MST")

    def rfc3339(self) -> str:
        return self.format("2006-01-02T15:04:05.999999999Z07:00")

    def _part(self, match: re.Match[str]) -> str:
        text = match[0]
        if text[0] in ".,":
            digits = f"{self.nanosecond:09d}"[: len(text) - 1].ljust(len(text) - 1, "0")
            if text[1] == "9":
                digits = digits.rstrip("0")
                return f"{text[0]}{digits}" if digits else ""
            return f"{text[0]}{digits}"
        if text[0] in "Z-":
            return "Z" if text[0] == "Z" and not self.offset_s else self._offset(text[1:])
        if text == "MST":
            return self.zone or self._offset("0700")
        return _SHOWN[text](self)

    def _offset(self, form: str) -> str:
        size = abs(self.offset_s)
        mark = ":" if ":" in form else ""
        parts = [size // 3600, size // 60 % 60, size % 60][: len(form.replace(":", "")) // 2]
        return ("-" if self.offset_s < 0 else "+") + mark.join(f"{part:02d}" for part in parts)


def _year(moment: Moment) -> str:
    return f"{'-' if moment.year < 0 else ''}{abs(moment.year):04d}"


def _short_year(moment: Moment) -> str:
    return f"{abs(moment.year) % 100:02d}"


def _hour12(moment: Moment) -> int:
    return moment.hour % 12 or 12


_SHOWN: dict[str, Callable[[Moment], str]] = {
    "January": lambda moment: MONTHS[moment.month - 1],
    "Jan": lambda moment: MONTHS[moment.month - 1][:3],
    "Monday": lambda moment: WEEKDAYS[moment.weekday],
    "Mon": lambda moment: WEEKDAYS[moment.weekday][:3],
    "2006": _year,
    "06": _short_year,
    "__2": lambda moment: f"{moment.year_day:3d}",
    "002": lambda moment: f"{moment.year_day:03d}",
    "_2": lambda moment: f"{moment.day:2d}",
    "01": lambda moment: f"{moment.month:02d}",
    "1": lambda moment: str(moment.month),
    "02": lambda moment: f"{moment.day:02d}",
    "2": lambda moment: str(moment.day),
    "15": lambda moment: f"{moment.hour:02d}",
    "03": lambda moment: f"{_hour12(moment):02d}",
    "3": lambda moment: str(_hour12(moment)),
    "04": lambda moment: f"{moment.minute:02d}",
    "4": lambda moment: str(moment.minute),
    "05": lambda moment: f"{moment.second:02d}",
    "5": lambda moment: str(moment.second),
    "PM": lambda moment: "PM" if moment.hour >= 12 else "AM",
    "pm": lambda moment: "pm" if moment.hour >= 12 else "am",
}


class _Mismatch(Exception):
    """The text does not go on as the layout says."""


class _OutOfRange(Exception):
    """A part of the text is a number that its kind does not have."""


@dataclass(slots=True)
class _Fields:
    year: int = 0
    month: int = 0
    day: int = 0
    year_day: int = 0
    hour: int = 0
    minute: int = 0
    second: int = 0
    nanosecond: int = 0
    half: str = ""
    offset_s: int = 0
    zone: str = "UTC"


def parse_time(layout: str, text: str) -> Moment:
    """Returns the time that `text` names by the layout. Raises InvalidInputError with Go's text."""
    fields, rest, end = _Fields(), text, 0
    for match in [*_PART.finditer(layout), None]:
        before = layout[end : match.start() if match is not None else len(layout)]
        wanted = before
        try:
            rest = _skip(rest, before)
            if match is None:
                break
            wanted, end = match[0], match.end()
            follows = layout[end : end + 2]
            rest = _READ.get(match[0], _read_other)(fields, rest, match[0])
            if match[0] in ("05", "5") and not re.match(r"[.,][09]", follows):
                rest = _read_fraction(fields, rest, None)
        except _Mismatch as error:
            left = error.args[0] if error.args else rest
            raise InvalidInputError(
                f"parsing time {_quoted(text)} as {_quoted(layout)}: cannot parse {_quoted(left)} "
                f"as {_quoted(wanted)}"
            ) from None
        except _OutOfRange as error:
            raise _out_of_range(text, str(error)) from None
    if rest:
        raise InvalidInputError(f"parsing time {_quoted(text)}: extra text: {_quoted(rest)}")
    return _moment(fields, text)


def _moment(fields: _Fields, text: str) -> Moment:
    month, day = fields.month or 1, fields.day or 1
    if fields.year_day:
        if fields.year_day > 365 + (_days_in(fields.year, 2) == 29):
            raise _out_of_range(text, "day-of-year")
        start = days_of(fields.year, 1, 1)
        _, month, day = date_of(start + fields.year_day - 1)
        if (fields.month or month) != month:
            raise InvalidInputError(
                f"parsing time {_quoted(text)}: day-of-year does not match month"
            )
        if (fields.day or day) != day:
            raise InvalidInputError(f"parsing time {_quoted(text)}: day-of-year does not match day")
    elif day > _days_in(fields.year, month):
        raise _out_of_range(text, "day")
    hour = fields.hour
    if fields.half:
        hour = hour % 12 + (12 if fields.half == "PM" else 0) if hour <= 12 else hour
    seconds = days_of(fields.year, month, day) * _DAY_S + hour * 3600 + fields.minute * 60
    seconds += fields.second - fields.offset_s
    zone = fields.zone if fields.offset_s or fields.zone else "UTC"
    return Moment(seconds * NS_PER_S + fields.nanosecond, fields.offset_s, zone)


def _out_of_range(text: str, what: str) -> InvalidInputError:
    return InvalidInputError(f"parsing time {_quoted(text)}: {what} out of range")


def _quoted(text: str) -> str:
    """The text in double quotes, with every byte that is not of ASCII as its number."""
    shown = [
        f"\\{chr(byte)}" if byte in b'"\\' else chr(byte) if 32 <= byte < 128 else f"\\x{byte:02x}"
        for byte in to_bytes(text)
    ]
    return f'"{"".join(shown)}"'


def _skip(text: str, wanted: str) -> str:
    """Returns what follows `wanted`; any number of blanks, also none at the end, is a blank."""
    while wanted:
        if wanted[0] == " ":
            if text and text[0] != " ":
                raise _Mismatch(text)
            wanted, text = wanted.lstrip(" "), text.lstrip(" ")
            continue
        if not text or text[0] != wanted[0]:
            raise _Mismatch(text)
        wanted, text = wanted[1:], text[1:]
    return text


def _number(text: str, pattern: str) -> tuple[int, str]:
    match = re.match(pattern, text, re.ASCII)
    if match is None:
        raise _Mismatch
    return int(match[0]), text[match.end() :]


def _field(name: str, pattern: str, low: int, high: int) -> Callable[[_Fields, str, str], str]:
    def read(fields: _Fields, text: str, _: str) -> str:
        number, rest = _number(text, pattern)
        if not low <= number <= high:
            raise _OutOfRange(name)
        setattr(fields, name, number)
        return rest

    return read


def _read_short_year(fields: _Fields, text: str, _: str) -> str:
    number, rest = _number(text, r"\d\d")
    fields.year = number + (1900 if number >= 69 else 2000)
    return rest


def _read_day(fields: _Fields, text: str, part: str) -> str:
    text = text.removeprefix(" ") if part == "_2" else text
    return _field("day", r"\d\d" if part == "02" else r"\d\d?", 1, 31)(fields, text, part)


def _read_year_day(fields: _Fields, text: str, part: str) -> str:
    blank = re.match(r" {0,2}", text) if part == "__2" else None
    width = 3 - (blank.end() if blank is not None else 0)
    number, rest = _number(text[3 - width :], rf"\d{{{width}}}")
    if not 1 <= number <= 366:
        raise _OutOfRange("day-of-year")
    fields.year_day = number
    return rest


def _read_name(fields: _Fields, text: str, part: str) -> str:
    names = MONTHS if part[0] == "J" else WEEKDAYS
    for number, name in enumerate(names, 1):
        shown = name if len(part) > 3 else name[:3]
        if text[: len(shown)].lower() == shown.lower():
            if part[0] == "J":
                fields.month = number
            return text[len(shown) :]
    raise _Mismatch


def _read_half(fields: _Fields, text: str, part: str) -> str:
    if text[:2] not in (("AM", "PM") if part == "PM" else ("am", "pm")):
        raise _Mismatch
    fields.half = text[:2].upper()
    return text[2:]


def _read_zone_name(fields: _Fields, text: str, _: str) -> str:
    match = re.match(r"UTC|GMT[+-]\d{1,2}|ChST|MeST|[A-Z]{3}(?![A-Z])|[A-Z]{3,4}T(?![A-Z])", text)
    if match is None:
        raise _Mismatch
    fields.zone = match[0]
    if match[0][3:] and match[0][:3] == "GMT":
        fields.offset_s = int(match[0][3:]) * 3600
    return text[match.end() :]


def _read_offset(fields: _Fields, text: str, part: str) -> str:
    if part[0] == "Z" and text[:1] == "Z":
        return text[1:]
    form = part[1:]
    mark = ":" if ":" in form else ""
    pattern = "([+-])" + mark.join([r"(\d\d)"] * (len(form.replace(":", "")) // 2))
    match = re.match(pattern, text, re.ASCII)
    if match is None:
        raise _Mismatch
    hours, minutes, seconds = [*map(int, match.groups()[1:]), 0, 0][:3]
    for number, most, name in (
        (hours, 24, "hour"),
        (minutes, 60, "minute"),
        (seconds, 60, "second"),
    ):
        if number > most:
            raise _OutOfRange(f"time zone offset {name}")
    size = hours * 3600 + minutes * 60 + seconds
    fields.offset_s = -size if match[1] == "-" else size
    if size:
        fields.zone = ""
    return text[match.end() :]


def _read_fraction(fields: _Fields, text: str, digits: int | None) -> str:
    """Reads exactly so many digits after a point; None: as many as there are, or nothing."""
    match = re.match(r"[.,](\d+)" if digits is None else rf"[.,](\d{{{digits}}})", text, re.ASCII)
    if match is None:
        if digits is None:
            return text
        raise _Mismatch
    fields.nanosecond = int(match[1][:9].ljust(9, "0"))
    return text[match.end() :]


def _read_other(fields: _Fields, text: str, part: str) -> str:
    if part[0] in "Z-":
        return _read_offset(fields, text, part)
    return _read_fraction(fields, text, len(part) - 1 if part[1] == "0" else None)


_READ: dict[str, Callable[[_Fields, str, str], str]] = {
    "2006": _field("year", r"\d{4}", 0, 9999),
    "06": _read_short_year,
    "01": _field("month", r"\d\d", 1, 12),
    "1": _field("month", r"\d\d?", 1, 12),
    "02": _read_day, "2": _read_day, "_2": _read_day,
    "002": _read_year_day, "__2": _read_year_day,
    "15": _field("hour", r"\d\d?", 0, 23),
    "03": _field("hour", r"\d\d", 0, 12),
    "3": _field("hour", r"\d\d?", 0, 12),
    "04": _field("minute", r"\d\d", 0, 59),
    "4": _field("minute", r"\d\d?", 0, 59),
    "05": _field("second", r"\d\d", 0, 59),
    "5": _field("second", r"\d\d?", 0, 59),
    "January": _read_name, "Jan": _read_name, "Monday": _read_name, "Mon": _read_name,
    "PM": _read_half, "pm": _read_half,
    "MST": _read_zone_name,
}  # fmt: skip
