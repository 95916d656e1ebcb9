"""Times by Go's layouts ("2006-01-02 15:04:05"), in UTC."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from orchgit.errors import InvalidInputError

NS_PER_S = 1_000_000_000

_PART = re.compile(
    r"January|Jan|Monday|Mon|MST|2006|__2|_2006|_2|002|01|02|03|04|05|06|15|1|2|3|4|5|PM|pm"
    r"|Z07:00:00|Z070000|Z07:00|Z0700|Z07|-07:00:00|-070000|-07:00|-0700|-07"
    r"|[.,]0+(?!\d)|[.,]9+(?!\d)"
)


class Moment:
    """One time in nanoseconds since 1970."""

    def __init__(self, ns: int) -> None:
        self.ns = ns
        self.date = datetime.fromtimestamp(0, UTC) + timedelta(seconds=ns // NS_PER_S)

    def format(self, layout: str) -> str:
        """The time by the layout; what is no part of a time stays as it is."""
        return _PART.sub(self._part, layout)

    def _part(self, match: re.Match[str]) -> str:
        text = match[0]
        if text[0] in ".,":
            digits = f"{self.ns % NS_PER_S:09d}"[: len(text) - 1].ljust(len(text) - 1, "0")
            if text[1] == "9":
                digits = digits.rstrip("0")
                return f"{text[0]}{digits}" if digits else ""
            return f"{text[0]}{digits}"
        if text[0] == "Z":
            return "Z"
        if text[0] == "-":
            return "+" + text[1:].replace("7", "0")
        if text == "_2006":
            return f"_{self.date.year:04d}"
        return _SHOWN[text](self.date)


def _hour12(date: datetime) -> int:
    return date.hour % 12 or 12


_SHOWN: dict[str, Callable[[datetime], str]] = {
    "January": lambda date: f"{date:%B}",
    "Jan": lambda date: f"{date:%b}",
    "Monday": lambda date: f"{date:%A}",
    "Mon": lambda date: f"{date:%a}",
    "MST": lambda date: "UTC",
    "2006": lambda date: f"{date.year:04d}",
    "06": lambda date: f"{date.year % 100:02d}",
    "__2": lambda date: f"{date.timetuple().tm_yday:3d}",
    "002": lambda date: f"{date.timetuple().tm_yday:03d}",
    "_2": lambda date: f"{date.day:2d}",
    "01": lambda date: f"{date.month:02d}",
    "1": lambda date: str(date.month),
    "02": lambda date: f"{date.day:02d}",
    "2": lambda date: str(date.day),
    "15": lambda date: f"{date.hour:02d}",
    "03": lambda date: f"{_hour12(date):02d}",
    "3": lambda date: str(_hour12(date)),
    "04": lambda date: f"{date.minute:02d}",
    "4": lambda date: str(date.minute),
    "05": lambda date: f"{date.second:02d}",
    "5": lambda date: str(date.second),
    "PM": lambda date: "PM" if date.hour >= 12 else "AM",
    "pm": lambda date: "pm" if date.hour >= 12 else "am",
}

_READ = {
    "2006": r"(?P<year>\d{4})", "01": r"(?P<month>\d\d)", "1": r"(?P<month>\d\d?)",
    "02": r"(?P<day>\d\d)", "2": r"(?P<day>\d\d?)", "_2": r"(?P<day>[ \d]\d)",
    "15": r"(?P<hour>\d\d)", "04": r"(?P<minute>\d\d)", "05": r"(?P<second>\d\d)",
    "06": r"(?P<short>\d\d)", "MST": r"[A-Z]{3,4}", "Mon": r"[A-Za-z]{3}", "Monday": r"[A-Za-z]+",
    "Z07:00": r"(?:Z|[+-]\d\d:\d\d)", "Jan": r"(?P<mon>[A-Za-z]{3})",
}  # fmt: skip


def parse_time(layout: str, text: str) -> Moment:
    """The time that `text` names by the layout. Raises InvalidInputError."""
    pattern, end = "", 0
    for match in _PART.finditer(layout):
        pattern += re.escape(layout[end : match.start()]) + _READ.get(match[0], r".*?")
        end = match.end()
    found = re.fullmatch(pattern + re.escape(layout[end:]), text)
    if found is None:
        raise InvalidInputError(f'parsing time "{text}" as "{layout}": cannot parse')
    parts = {name: value for name, value in found.groupdict().items() if value}
    try:
        year = int(parts.get("year") or 2000 + int(parts["short"]) if "short" in parts else
                   parts.get("year", 1))  # fmt: skip
        month = int(parts.get("month", 1))
        if "mon" in parts:
            month = datetime.strptime(parts["mon"], "%b").month
        date = datetime(
            year,
            month,
            int(parts.get("day", 1)),
            int(parts.get("hour", 0)),
            int(parts.get("minute", 0)),
            int(parts.get("second", 0)),
            tzinfo=UTC,
        )
    except ValueError as error:
        raise InvalidInputError(f'parsing time "{text}": {error}') from None
    return Moment(round((date - datetime.fromtimestamp(0, UTC)).total_seconds()) * NS_PER_S)
