"""When periodic jobs are due, in their time zones and across the odd days."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from orchgit.control.periodic_rules import missed_launch, next_launch_ns, overlaps
from orchgit.errors import InvalidInputError
from orchgit.model.base import ns_of_datetime
from orchgit.model.child_jobs import child_of, launched_id
from orchgit.model.job import JobOrigin, JobStatus, PeriodicConfig
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
def test_the_next_launch(spec: str, due: tuple[int, ...]) -> None:
    assert next_launch_ns(PeriodicConfig(spec=spec), ns(2027, 3, 1, 12)) == ns(*due)


def test_of_several_schedules_the_earliest_counts() -> None:
    config = PeriodicConfig(specs=["0 20 * * *", "0 14 * * *"])
    assert next_launch_ns(config, ns(2027, 3, 1, 12)) == ns(2027, 3, 1, 14)


def test_a_time_zone_is_followed_through_the_clock_change() -> None:
    config = PeriodicConfig(spec="30 2 * * *", time_zone="Europe/Berlin")
    assert next_launch_ns(config, ns(2027, 3, 27, 0)) == ns(2027, 3, 27, 1, 30)
    gap = next_launch_ns(config, ns(2027, 3, 27, 12))
    assert gap == ns(2027, 3, 28, 1)
    assert next_launch_ns(config, gap) == ns(2027, 3, 29, 0, 30)


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
def test_what_cannot_be_read_is_said(config: PeriodicConfig) -> None:
    with pytest.raises(InvalidInputError, match="cannot"):
        next_launch_ns(config, NOW_NS)


def test_a_disabled_schedule_or_a_past_year_is_never_due() -> None:
    assert next_launch_ns(PeriodicConfig(spec="* * * * *", enabled=False), NOW_NS) is None
    assert next_launch_ns(PeriodicConfig(spec="0 0 1 1 * 2020"), NOW_NS) is None


def test_a_launch_is_missed_only_when_one_fell_due() -> None:
    config = PeriodicConfig(spec="0 * * * *")
    assert missed_launch(config, ns(2027, 3, 1, 12), ns(2027, 3, 1, 13))
    assert not missed_launch(config, ns(2027, 3, 1, 12), ns(2027, 3, 1, 12, 59))


def test_a_launch_overlaps_while_a_child_lives() -> None:
    dead, alive = (make_batch_job(status=s) for s in (JobStatus.DEAD, JobStatus.RUNNING))
    assert not overlaps([dead])
    assert overlaps([dead, alive])


def test_a_child_runs_what_its_parent_describes_and_is_found_by_its_time() -> None:
    origin = JobOrigin(source="demo", commit_id="c0ffee")
    parent = make_batch_job(
        id="report", periodic=PeriodicConfig(spec="@daily"), version=4, origin=origin
    )
    child = child_of(parent, launched_id(parent, ns(2027, 3, 1)), NOW_NS)
    assert child.id == f"report/periodic-{ns(2027, 3, 1) // 10**9}"
    assert (child.parent_id, child.periodic, child.version) == ("report", None, 0)
    assert child.task_groups == parent.task_groups
    assert child.origin == origin
