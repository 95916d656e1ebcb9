"""The next moment at which local time, in some zone, matches a cron expression.

Time zones are the IANA names. A local time that occurs twice, because clocks go back, matches
twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from orchgit.cron_expression import CronError, parse_cron
from orchgit.errors import InvalidInputError

_RESOLUTION = timedelta(microseconds=1)


def time_zone(name: str) -> tzinfo:
    """Returns the zone of an IANA name, UTC for '', that of this machine for 'Local'. Raises
    InvalidInputError for another name."""
    if name == "Local":
        try:
            with open("/etc/localtime", "rb") as file:
                return ZoneInfo.from_file(file)
        except (OSError, ValueError):
            return UTC
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInputError(
            f'cannot use time zone "{name}": it is not an IANA name such as Europe/Berlin'
        ) from None


def next_moment(
    spec: str, after: datetime, zone: tzinfo, *, count_skipped: bool = False
) -> datetime | None:
    """Returns the first moment after `after` (both in UTC) at which local time in `zone` matches
    `spec`; None if there is none.

    A local time that clocks skip is left out; with `count_skipped` it counts as the moment at which
    clocks go forward. Raises InvalidInputError for an expression that cannot be read.
    """
    try:
        cron = parse_cron(spec)
    except CronError as error:
        raise InvalidInputError(f'cannot read cron expression "{spec}": {error}') from None
    local = after.astimezone(zone)
    find = partial(_first, zone=zone, count_skipped=count_skipped)
    found = find(cron.moments(local.replace(tzinfo=None)), after)
    again = _goes_back_at(local)
    if again is None or (found is not None and found < again):
        return found
    # Of what clocks show twice, nothing is left of the first time: from where they go back.
    shown = again.astimezone(zone).replace(tzinfo=None) - _RESOLUTION
    twice = find(cron.moments(shown), again - _RESOLUTION)
    return min((each for each in (found, twice) if each is not None), default=None)


def _first(
    walls: Iterator[datetime], after: datetime, zone: tzinfo, count_skipped: bool
) -> datetime | None:
    """Returns the first moment after `after` at which local time in `zone` is one of `walls`."""
    for wall in walls:
        moments = list(_moments(wall, zone))
        if not moments and count_skipped:
            # With the offset of before, a skipped time is after the change, and vice versa.
            late, early = (wall.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
            moments = [_change_of_offset(early.astimezone(UTC), late.astimezone(UTC), zone)]
        later = [moment for moment in moments if moment > after]
        if later:
            return min(later)
    return None


def _moments(wall: datetime, zone: tzinfo) -> Iterator[datetime]:
    """Yields the moments at which local time in `zone` is `wall`: two when clocks go back, none
    when they skip it."""
    for fold in (0, 1):
        moment = wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)
        if moment.astimezone(zone).replace(tzinfo=None) == wall:
            yield moment


def _goes_back_at(local: datetime) -> datetime | None:
    """Returns the moment at which clocks go back if `local` is the first of two occurrences, else
    None."""
    first, second = (local.replace(fold=fold).utcoffset() for fold in (0, 1))
    if first is None or second is None or local.fold or first <= second:
        return None
    early = local.astimezone(UTC)
    assert local.tzinfo is not None
    return _change_of_offset(early, early + (first - second), local.tzinfo)


def _change_of_offset(early: datetime, late: datetime, zone: tzinfo) -> datetime:
    """Returns the moment between two, of which `late` has another offset, at which it changes."""
    first = early.astimezone(zone).utcoffset()
    while late - early > _RESOLUTION:
        middle = early + (late - early) / 2
        if middle.astimezone(zone).utcoffset() == first:
            early = middle
        else:
            late = middle
    return late
