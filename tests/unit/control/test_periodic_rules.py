"""When periodic jobs are due, in their time zones and across the odd days."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchgit.control.watchers.periodic_rules import (
    is_tracked,
    missed_launch,
    next_launch_ns,
    overlaps,
)
from orchgit.errors import InvalidInputError
from orchgit.model.base import ns_of_datetime
from orchgit.model.child_jobs import child_of, launched_id, launched_ns
from orchgit.model.job import (
    Job,
    JobOrigin,
    JobStatus,
    ParameterizedJobConfig,
    PeriodicConfig,
)
from tests.support.factories import NOW_NS, make_batch_job


def ns(*moment: int) -> int:
    return ns_of_datetime(datetime(*moment, tzinfo=UTC))  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("spec", "due"),
    [
        ("*/15 * * * *", (2027, 3, 1, 12, 15)),
        ("0 6 * * 1-5", (2027, 3, 2, 6)),
        ("@daily", (2027, 3, 2)),
        ("@hourly", (2027, 3, 1, 13)),
        ("0 0 1 1 * 2030", (2030, 1, 1)),
        ("30 0 0 1 1 * 2029-2031", (2029, 1, 1, 0, 0, 30)),
        ("*/10 * * * * * *", (2027, 3, 1, 12, 0, 10)),
    ],
)
def test_next_launch_follows_the_cron_expression(spec: str, due: tuple[int, ...]) -> None:
    assert next_launch_ns(PeriodicConfig(spec=spec), ns(2027, 3, 1, 12)) == ns(*due)


def test_earliest_of_several_schedules_is_next() -> None:
    config = PeriodicConfig(specs=["0 20 * * *", "0 14 * * *"])
    assert next_launch_ns(config, ns(2027, 3, 1, 12)) == ns(2027, 3, 1, 14)


def test_launch_follows_the_time_zone_and_a_skipped_hour_has_none() -> None:
    config = PeriodicConfig(spec="30 2 * * *", time_zone="Europe/Berlin")
    assert next_launch_ns(config, ns(2027, 3, 27, 0)) == ns(2027, 3, 27, 1, 30)
    assert next_launch_ns(config, ns(2027, 3, 27, 12)) == ns(2027, 3, 29, 0, 30)


def test_launch_in_a_repeated_hour_happens_twice() -> None:
    config = PeriodicConfig(spec="30 1 * * *", time_zone="America/New_York")
    first = next_launch_ns(config, ns(2027, 11, 7, 0))
    assert first == ns(2027, 11, 7, 5, 30)
    second = next_launch_ns(config, first)
    assert second == ns(2027, 11, 7, 6, 30)
    assert next_launch_ns(config, second) == ns(2027, 11, 8, 6, 30)


ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC")


@given(
    minutes=st.lists(st.integers(0, 59), min_size=1, max_size=3, unique=True),
    hours=st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True),
    zone=st.sampled_from(ZONES),
    day=st.sampled_from([(2027, 3, 13), (2027, 3, 27), (2027, 4, 3), (2027, 10, 2), (2027, 10, 30),
                         (2027, 11, 6)]),
    minute=st.integers(0, 2880),
)  # fmt: skip
@settings(max_examples=50, deadline=None)
def test_next_launch_is_the_first_matching_minute_of_local_time(
    minutes: list[int], hours: list[int], zone: str, day: tuple[int, int, int], minute: int
) -> None:
    spec = f"{','.join(map(str, minutes))} {','.join(map(str, hours))} * * *"
    start = datetime(*day, tzinfo=UTC) + timedelta(minutes=minute)
    looked_at = (start + timedelta(minutes=n) for n in range(1, 3 * 1440))
    expected = next(
        moment
        for moment in looked_at
        if (shown := moment.astimezone(ZoneInfo(zone))).minute in minutes and shown.hour in hours
    )
    config = PeriodicConfig(spec=spec, time_zone=zone)
    assert next_launch_ns(config, ns_of_datetime(start)) == ns_of_datetime(expected)


@pytest.mark.parametrize(
    "config",
    [
        PeriodicConfig(spec="61 * * * *"),
        PeriodicConfig(spec="* * *"),
        PeriodicConfig(spec="* * * * * never"),
        PeriodicConfig(spec="* * * * *", time_zone="Europe/Atlantis"),
        PeriodicConfig(spec="* * * * *", time_zone="../../etc/passwd"),
    ],
)
def test_unreadable_schedule_is_refused(config: PeriodicConfig) -> None:
    with pytest.raises(InvalidInputError, match="cannot"):
        next_launch_ns(config, NOW_NS)


def test_disabled_schedule_or_past_year_is_never_due() -> None:
    assert next_launch_ns(PeriodicConfig(spec="* * * * *", enabled=False), NOW_NS) is None
    assert next_launch_ns(PeriodicConfig(spec="0 0 1 1 * 2020"), NOW_NS) is None


def hourly(**fields: object) -> Job:
    return make_batch_job(
        periodic=PeriodicConfig(spec="0 * * * *"), **{"submit_time_ns": 0, **fields}
    )


def test_launch_is_missed_only_when_one_was_due() -> None:
    assert missed_launch(hourly(), ns(2027, 3, 1, 12), ns(2027, 3, 1, 13))
    assert not missed_launch(hourly(), ns(2027, 3, 1, 12), ns(2027, 3, 1, 12, 59))


def test_launch_due_before_the_job_was_changed_is_not_missed() -> None:
    changed = hourly(submit_time_ns=ns(2027, 3, 1, 13, 30))
    assert not missed_launch(changed, ns(2027, 3, 1, 12), ns(2027, 3, 1, 13, 45))
    assert missed_launch(changed, 0, ns(2027, 3, 1, 14))


def test_parameterized_periodic_job_is_tracked_only_when_dispatched() -> None:
    both = hourly(parameterized_job=ParameterizedJobConfig())
    assert not is_tracked(both)
    assert is_tracked(msgspec.structs.replace(both, dispatched=True))
    assert is_tracked(hourly())


def test_launch_overlaps_while_a_child_runs() -> None:
    assert not overlaps([JobStatus.DEAD])
    assert overlaps([JobStatus.DEAD, JobStatus.RUNNING])


def test_child_copies_its_parent_and_its_id_holds_the_launch_time() -> None:
    origin = JobOrigin(source="demo", commit_id="c0ffee")
    parent = make_batch_job(
        id="report", periodic=PeriodicConfig(spec="@daily"), version=4, origin=origin
    )
    child = child_of(parent, launched_id(parent, ns(2027, 3, 1)), NOW_NS)
    assert child.id == f"report/periodic-{ns(2027, 3, 1) // 10**9}"
    assert launched_ns(child.id) == ns(2027, 3, 1)
    assert launched_ns("report/periodic-now") == launched_ns("report") == 0
    assert (child.parent_id, child.periodic, child.version) == ("report", None, 0)
    assert child.task_groups == parent.task_groups
    assert child.origin == origin
