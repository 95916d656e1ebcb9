"""Cron expressions are read, and due, as by the library that Nomad uses.

`cron-neighbours.json`: (expression, after, time zone, the next three moments or the error), as
cronexpr 1.1.3 told them; "never" ends a list.
"""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.cron import next_moment, time_zone
from orchgit.cron_expression import CronError, parse_cron
from orchgit.errors import InvalidInputError

GOLDEN = Path(__file__).parents[1] / "golden"
NEIGHBOURS = json.loads((GOLDEN / "cron-neighbours.json").read_text(encoding="utf-8"))


def moments(spec: str, after: str, zone: str, count: int = 3) -> list[str]:
    found: list[str] = []
    moment = datetime.fromisoformat(after)
    while len(found) < count:
        due = next_moment(spec, moment, time_zone(zone))
        if due is None:
            return [*found, "never"]
        moment = due
        found.append(due.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    return found


def answer(spec: str, after: str, zone: str) -> list[str] | str:
    try:
        parse_cron(spec)
    except CronError as error:
        return str(error)
    return moments(spec, after, zone)


def test_expressions_are_due_when_they_are_on_nomad() -> None:
    wrong = [
        (spec, after, zone, wanted, found)
        for spec, after, zone, wanted in NEIGHBOURS
        if (found := answer(spec, after, zone)) != wanted
    ]
    assert not wrong


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("0 16-3 * * *", "syntax error in hour field: '16-3'"),
        ("0 0 * * FRI-MON", "syntax error in day-of-week field: 'FRI-MON'"),
        ("* * * * * * * *", "8 fields, of which the last 1 mean nothing"),
        (", * * * *", "missing field"),
        ("\u0663 * * * *", "syntax error in minute field"),
        (f"{'9' * 5000} * * * *", "syntax error in minute field"),
    ],
)
def test_expression_that_would_never_be_due_or_means_nothing_is_refused(
    spec: str, problem: str
) -> None:
    """Nomad takes these."""
    with pytest.raises(CronError, match=problem):
        parse_cron(spec)
    with pytest.raises(InvalidInputError, match="cannot read cron expression"):
        next_moment(spec, datetime(2026, 1, 1, tzinfo=UTC), UTC)


def test_seven_is_sunday_everywhere() -> None:
    """On Nomad it is not where it ends a range."""
    after = "2026-01-01T12:00:00+00:00"
    friday_to_sunday = ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z"]
    assert moments("0 0 * * 5-7", after, "UTC") == friday_to_sunday
    assert moments("0 0 * * 0-0", after, "UTC", 1) == ["2026-01-04T00:00:00Z"]


def test_every_second_of_an_hour_that_is_skipped_is_passed_over() -> None:
    after = "2027-03-28T00:59:59+00:00"
    assert moments("* * 2 * * * *", after, "Europe/Berlin", 1) == ["2027-03-29T00:00:00Z"]


def test_zone_of_the_machine_is_known() -> None:
    assert next_moment("* * * * *", datetime(2026, 1, 1, tzinfo=UTC), time_zone("Local"))


SOME = st.sets(st.integers(0, 23), min_size=1, max_size=3)


@settings(max_examples=100, deadline=None)
@given(
    seconds=SOME,
    minutes=SOME,
    hours=SOME,
    days=st.sets(st.integers(1, 31), min_size=1, max_size=4),
    weekdays=st.sets(st.integers(0, 6), min_size=1, max_size=3),
    after=st.datetimes(datetime(2026, 1, 1), datetime(2029, 1, 1)),
)
def test_moments_are_all_whose_parts_are_named(
    seconds: set[int],
    minutes: set[int],
    hours: set[int],
    days: set[int],
    weekdays: set[int],
    after: datetime,
) -> None:
    fields = [",".join(map(str, each)) for each in (seconds, minutes, hours, days)]
    spec = f"{' '.join(fields)} * {','.join(map(str, weekdays))} *"
    found = list(itertools.islice(parse_cron(spec).moments(after), 20))
    dates = (after.date() + timedelta(days=number) for number in range(200))
    due = [each for each in dates if each.day in days or each.isoweekday() % 7 in weekdays]
    times = sorted(time(*each) for each in itertools.product(hours, minutes, seconds))
    expected = (datetime.combine(day, each) for day in due for each in times)
    assert found == list(itertools.islice((each for each in expected if each > after), 20))
