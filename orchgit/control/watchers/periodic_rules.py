"""Pure rules that decide when a periodic job is due.

Cron expressions have five fields; a sixth is the year; with seven the first is the second. Time
zones are the IANA names. As Nomad documents it, a local time that daylight saving skips is left out
that day, and one that occurs twice is run twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from orchgit.errors import InvalidInputError
from orchgit.model.base import datetime_of_ns, ns_of_datetime
from orchgit.model.job import Job, JobStatus, PeriodicConfig

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MAX_STEPS = 1000
_RESOLUTION = timedelta(microseconds=1)


def next_launch_ns(config: PeriodicConfig, after_ns: int) -> int | None:
    """Returns the first moment after `after_ns` at which any of the schedules is due; None if there
    is none.

    Raises InvalidInputError for an expression or a time zone that cannot be read.
    """
    if not config.enabled:
        return None
    zone = _zone(config.time_zone)
    after = datetime_of_ns(after_ns)
    moments = [_next(spec, after, zone) for spec in _specs(config)]
    return min((ns_of_datetime(moment) for moment in moments if moment is not None), default=None)


def _specs(config: PeriodicConfig) -> list[str]:
    specs = list(config.specs or ())
    if config.spec:
        specs.insert(0, config.spec)
    return specs


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInputError(
            f'cannot use time zone "{name}": it is not an IANA name such as Europe/Berlin'
        ) from None


def _next(spec: str, after: datetime, zone: tzinfo) -> datetime | None:
    """Returns the first moment after `after` (both in UTC) at which local time in `zone` matches
    `spec`."""
    fields = _MACROS.get(spec.strip().lower(), spec).split()
    years = None
    if len(fields) in (6, 7):
        years = _years(fields.pop(), spec)
    local = after.astimezone(zone)
    try:
        walls = CronSim(" ".join(fields), local.replace(tzinfo=None))
        found = _first_of_years(walls, years, after, zone)
        again = _goes_back_at(local)
        if again is None or (found is not None and found < again):
            return found
        # Of what clocks show twice, nothing is left of the first time: from where they go back.
        shown = again.astimezone(zone).replace(tzinfo=None) - _RESOLUTION
        twice = _first_of_years(CronSim(" ".join(fields), shown), years, again - _RESOLUTION, zone)
        return min((each for each in (found, twice) if each is not None), default=None)
    except CronSimError as error:
        raise InvalidInputError(f'cannot read cron expression "{spec}": {error}') from None


def _years(field: str, spec: str) -> frozenset[int] | None:
    """Returns the years that the field names; None for every year."""
    if field in ("*", "?"):
        return None
    years: set[int] = set()
    try:
        for part in field.split(","):
            first, _, last = part.partition("-")
            years.update(range(int(first), int(last or first) + 1))
    except ValueError:
        raise InvalidInputError(
            f'cannot read cron expression "{spec}": the year "{field}" is not a list of years'
        ) from None
    return frozenset(years)


def _first_of_years(
    walls: Iterator[datetime], years: frozenset[int] | None, after: datetime, zone: tzinfo
) -> datetime | None:
    """Returns the first moment after `after` at which local time in `zone` is one of `walls` in one
    of `years`."""
    for wall in islice(walls, _MAX_STEPS):
        if years is not None and wall.year > max(years):
            return None
        if years is None or wall.year in years:
            moments = [moment for moment in _moments(wall, zone) if moment > after]
            if moments:
                return min(moments)
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
    late = early + (first - second)
    while late - early > _RESOLUTION:
        middle = early + (late - early) / 2
        if middle.astimezone(local.tzinfo).utcoffset() == first:
            early = middle
        else:
            late = middle
    return late


def is_tracked(job: Job) -> bool:
    """Returns whether the dispatcher launches this job."""
    periodic = job.periodic
    # A parent that is parameterized as well is launched as often as each of its dispatches says.
    is_parent = job.is_periodic and not job.is_parameterized
    return is_parent and periodic is not None and periodic.enabled and not job.stop


def overlaps(children: Sequence[Job]) -> bool:
    """Returns whether an earlier launch still runs."""
    return any(child.status != JobStatus.DEAD for child in children)


def missed_launch(job: Job, last_ns: int, now_ns: int) -> bool:
    """Returns whether a launch was due between the last one and now, without a leader to make it.
    Launches due before the job's last registration do not count."""
    if job.periodic is None:
        return False
    due_ns = next_launch_ns(job.periodic, max(last_ns, job.submit_time_ns))
    return due_ns is not None and due_ns <= now_ns
