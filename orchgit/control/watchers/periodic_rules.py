"""Pure rules that decide when a periodic job is due.

As Nomad documents it, a local time that daylight saving skips is left out that day, and one that
occurs twice is run twice.
"""

from __future__ import annotations

from collections.abc import Iterable

from orchgit.cron import next_moment, time_zone
from orchgit.model.base import datetime_of_ns, ns_of_datetime
from orchgit.model.job import Job, JobStatus, PeriodicConfig


def next_launch_ns(config: PeriodicConfig, after_ns: int) -> int | None:
    """Returns the first moment after `after_ns` at which any of the schedules is due; None if there
    is none.

    Raises InvalidInputError for an expression or a time zone that cannot be read.
    """
    if not config.enabled:
        return None
    zone = time_zone(config.time_zone)
    after = datetime_of_ns(after_ns)
    moments = [next_moment(spec, after, zone) for spec in _specs(config)]
    return min((ns_of_datetime(moment) for moment in moments if moment is not None), default=None)


def _specs(config: PeriodicConfig) -> list[str]:
    specs = list(config.specs or ())
    if config.spec:
        specs.insert(0, config.spec)
    return specs


def is_tracked(job: Job) -> bool:
    """Returns whether the dispatcher launches this job."""
    periodic = job.periodic
    # A parent that is parameterized as well is launched as often as each of its dispatches says.
    is_parent = job.is_periodic and not job.is_parameterized
    return is_parent and periodic is not None and periodic.enabled and not job.stop


def overlaps(statuses: Iterable[str]) -> bool:
    """Returns whether an earlier launch still runs, given the statuses of all of them."""
    return any(status != JobStatus.DEAD for status in statuses)


def missed_launch(job: Job, last_ns: int, now_ns: int) -> bool:
    """Returns whether a launch was due between the last one and now, without a leader to make it.
    Launches due before the job's last registration do not count."""
    if job.periodic is None:
        return False
    due_ns = next_launch_ns(job.periodic, max(last_ns, job.submit_time_ns))
    return due_ns is not None and due_ns <= now_ns
