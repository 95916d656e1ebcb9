"""Metrics of sources, on the leader: their health, their checks, and how long commits take."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Mapping, Sequence

from orchgit.gitops.rollouts.timings import BOUNDS_S, SourceTimings
from orchgit.gitops.sources.status_reader import SourceReport
from orchgit.metrics.values import Gauge, Histogram
from orchgit.model.base import NS_PER_S
from orchgit.model.rollout import WAITING_ROLLOUT_STATUSES
from orchgit.model.source_health import HealthStatus
from orchgit.state.snapshot import Snapshot

MAX_SOURCES = 1_000
"""Sources beyond that, by name, are only counted: each has some twenty series."""


def source_metrics(
    snapshot: Snapshot,
    reports: Sequence[SourceReport],
    timings: Mapping[str, SourceTimings],
    now_ns: int,
) -> Iterator[Gauge | Histogram]:
    """Yields the metrics of the sources that exist; removed ones leave no series."""
    found = Tally(report.health.status for report in reports)
    for status in HealthStatus:
        yield Gauge("orchgit.gitops.sources", float(found[status]), {"status": status})
    shown = {report.source.name: report for report in reports[:MAX_SOURCES]}
    counts = snapshot.rollouts.counts()
    for (name, ended), count in sorted(counts.items()):
        if name in shown:
            labels = {"source": name, "status": ended}
            yield Gauge("orchgit.gitops.source.rollouts", float(count), labels)
    for name in shown:
        for waits in sorted(WAITING_ROLLOUT_STATUSES):
            labels = {"source": name, "status": waits}
            count = counts.get((name, waits), 0)
            yield Gauge("orchgit.gitops.source.waiting_rollouts", float(count), labels)
    for name, report in shown.items():
        yield from _of_source(report, now_ns)
        of_source = timings.get(name)
        if of_source is not None:
            label = {"source": name}
            yield Histogram(
                "orchgit.gitops.source.commit_to_applied_seconds",
                BOUNDS_S,
                of_source.to_applied.counts,
                of_source.to_applied.total_s,
                label,
            )
            yield Histogram(
                "orchgit.gitops.source.time_to_healthy_seconds",
                BOUNDS_S,
                of_source.to_healthy.counts,
                of_source.to_healthy.total_s,
                label,
            )


def _of_source(report: SourceReport, now_ns: int) -> Iterator[Gauge]:
    health, check, label = report.health, report.check, {"source": report.source.name}
    for status in HealthStatus:
        labels = {**label, "status": status}
        yield Gauge("orchgit.gitops.source.health", float(health.status == status), labels)
    yield Gauge("orchgit.gitops.source.paused", float(report.source.paused), label)
    yield Gauge("orchgit.gitops.source.degraded_jobs", float(health.jobs.degraded), label)
    yield Gauge("orchgit.gitops.source.held_versions", float(health.jobs.held), label)
    yield Gauge("orchgit.gitops.source.consecutive_errors", float(check.failures), label)
    if report.source.paused:
        return  # nobody checks it, and nobody should be woken because of that
    if check.last_check_ns:
        age_s = max(0.0, (now_ns - check.last_check_ns) / NS_PER_S)
        yield Gauge("orchgit.gitops.source.last_check_age_seconds", age_s, label)
    if since_ns := check.last_success_ns or check.error_since_ns:
        age_s = max(0.0, (now_ns - since_ns) / NS_PER_S)
        yield Gauge("orchgit.gitops.source.last_success_age_seconds", age_s, label)
