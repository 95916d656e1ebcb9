"""When a periodic job is due. Pure.

Cron expressions have five fields; a sixth is the year; with seven the first is the second. Time
zones are the IANA names; a local time that daylight saving skips is run after the gap, and one that
occurs twice is run once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
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


def next_launch_ns(config: PeriodicConfig, after_ns: int) -> int | None:
    """The first moment after `after_ns` at which any of the schedules is due; None: never.

    Raises InvalidInputError for an expression or a time zone that cannot be read.
    """
    if not config.enabled:
        return None
    zone = _zone(config.time_zone)
    start = datetime_of_ns(after_ns).astimezone(zone)
    moments = [_next(spec, start) for spec in _specs(config)]
    found = [ns_of_datetime(moment.astimezone(UTC)) for moment in moments if moment is not None]
    return min(found, default=None)


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


def _next(spec: str, start: datetime) -> datetime | None:
    fields = _MACROS.get(spec.strip().lower(), spec).split()
    years = None
    if len(fields) in (6, 7):
        years = _years(fields.pop(), spec)
    try:
        moments: Iterator[datetime] = CronSim(" ".join(fields), start)
        return _first_of_years(moments, years)
    except CronSimError as exc:
        raise InvalidInputError(f'cannot read cron expression "{spec}": {exc}') from None


def _years(field: str, spec: str) -> frozenset[int] | None:
    """None: every year."""
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


def _first_of_years(moments: Iterator[datetime], years: frozenset[int] | None) -> datetime | None:
    for _ in range(_MAX_STEPS):
        moment = next(moments, None)
        if moment is None or years is None or moment.year in years:
            return moment
        if moment.year > max(years):
            return None
    return None


def is_tracked(job: Job) -> bool:
    """Whether the dispatcher launches this job."""
    periodic = job.periodic
    return periodic is not None and periodic.enabled and not job.stop


def overlaps(children: Sequence[Job]) -> bool:
    """Whether an earlier launch still runs."""
    return any(child.status != JobStatus.DEAD for child in children)


def missed_launch(config: PeriodicConfig, last_ns: int, now_ns: int) -> bool:
    """Whether a launch was due between the last one and now, while nobody led."""
    due_ns = next_launch_ns(config, last_ns)
    return due_ns is not None and due_ns <= now_ns
