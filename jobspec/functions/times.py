"""Time stamps (RFC 3339) and their formats."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

from jobspec.functions.signature import ArgumentError, Function, FunctionError, text
from orchgit import durations

_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)")
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+|'", re.DOTALL)


def _parse(value: str, index: int) -> datetime:
    m = _RFC3339.fullmatch(value)
    if m is None:
        raise ArgumentError(index, f"not a valid RFC3339 timestamp: {_why(value)}")
    try:
        year, month, day, hour, minute, second = (int(m[i]) for i in range(1, 7))
        micro = int((m[7] or "0")[:6].ljust(6, "0"))
        return datetime(year, month, day, hour, minute, second, micro, _zone(m[8]))
    except ValueError as error:
        raise ArgumentError(index, f"not a valid RFC3339 timestamp: {error}") from None


def _why(value: str) -> str:
    if re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        return "missing required time introducer 'T'"
    return f"cannot use {value!r}"


def _zone(text_: str) -> timezone:
    if text_ == "Z":
        return UTC
    sign = -1 if text_[0] == "-" else 1
    return timezone(sign * timedelta(hours=int(text_[1:3]), minutes=int(text_[4:6])))


def _offset(moment: datetime, colon: bool) -> str:
    minutes = int((moment.utcoffset() or timedelta()).total_seconds()) // 60
    sign = "-" if minutes < 0 else "+"
    hours, rest = divmod(abs(minutes), 60)
    return f"{sign}{hours:02d}{':' if colon else ''}{rest:02d}"


def _verb(verb: str, t: datetime) -> str | None:
    """One run of a letter; None where it means nothing."""
    utc = not t.utcoffset()
    twelve = t.hour % 12 or 12
    half = "AM" if t.hour < 12 else "PM"
    return {
        "YYYY": f"{t.year:04d}",
        "YY": f"{t.year % 100:02d}",
        "M": str(t.month),
        "MM": f"{t.month:02d}",
        "MMM": _MONTHS[t.month - 1][:3],
        "MMMM": _MONTHS[t.month - 1],
        "D": str(t.day),
        "DD": f"{t.day:02d}",
        "EEE": _DAYS[t.weekday()][:3],
        "EEEE": _DAYS[t.weekday()],
        "h": str(t.hour),
        "hh": f"{t.hour:02d}",
        "H": str(twelve),
        "HH": f"{twelve:02d}",
        "AA": half,
        "aa": half.lower(),
        "m": str(t.minute),
        "mm": f"{t.minute:02d}",
        "s": str(t.second),
        "ss": f"{t.second:02d}",
        "Z": "Z" if utc else _offset(t, colon=True),
        "ZZZ": "UTC" if utc else _offset(t, colon=False),
        "ZZZZ": _offset(t, colon=False),
        "ZZZZZ": _offset(t, colon=True),
    }.get(verb)


def _formatdate(layout: str, time: str) -> str:
    moment = _parse(time, 1)
    out = []
    for token in _TOKEN.finditer(layout):
        if token[2]:
            part = _verb(token[0], moment)
            if part is None:
                raise ArgumentError(0, f'invalid date format verb "{token[0]}"')
            out.append(part)
        elif token[0] == "'":
            raise ArgumentError(0, "unterminated literal: no closing quote")
        elif token[1] is not None:
            out.append(token[1].replace("''", "'"))
        else:
            out.append(token[0])
    return "".join(out)


def _timeadd(time: str, duration: str) -> str:
    try:
        moment = _parse(time, 0)
    except ArgumentError as error:
        raise FunctionError(str(error)) from None
    try:
        added = moment + timedelta(microseconds=durations.parse_ns(duration) / 1000)
    except durations.DurationError as error:
        raise FunctionError(str(error)) from None
    except OverflowError:
        raise FunctionError("the result is out of range") from None
    stamp = added.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    return stamp + ("Z" if not added.utcoffset() else _offset(added, colon=True))


FUNCTIONS = {
    "formatdate": Function(_formatdate, (text("format"), text("time"))),
    "timeadd": Function(_timeadd, (text("timestamp"), text("duration"))),
}
