"""Metrics of sources: what each shows, and how many series there are at most."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from orchgit.gitops.rollouts.timings import Durations, SourceTimings
from orchgit.gitops.sources.status_reader import SourceReport
from orchgit.metrics.values import Gauge
from orchgit.model.base import NS_PER_S
from orchgit.model.source import Source
from orchgit.model.source_health import HealthStatus, JobCounts, SourceCheck, SourceHealth
from orchgit.server.ports.source_metrics import MAX_SOURCES, source_metrics

NOW_NS = 1_000 * NS_PER_S


@dataclass
class Counts:
    """The part of a snapshot that the metrics read."""

    found: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def rollouts(self) -> Counts:
        return self

    def counts(self) -> dict[tuple[str, str], int]:
        return self.found


def report(name: str, status: str = "healthy", paused: bool = False, **check: Any) -> SourceReport:
    health = SourceHealth(status=status, jobs=JobCounts(total=3, degraded=2, held=1))
    return SourceReport(Source(name=name, paused=paused), health, SourceCheck(**check), 1)


def series(snapshot: Counts, reports: list[SourceReport], **timings: SourceTimings) -> list[Any]:
    return list(source_metrics(snapshot, reports, timings, NOW_NS))  # type: ignore[arg-type]


def values(found: list[Any]) -> dict[str, float]:
    shown = {}
    for each in found:
        if isinstance(each, Gauge):
            labels = sorted(map(str, each.labels.values()))
            shown[each.name.removeprefix("orchgit.gitops.") + str(labels)] = each.value
    return shown


def test_each_source_shows_its_health_its_errors_and_its_ages() -> None:
    check = {
        "last_check_ns": NOW_NS - 5 * NS_PER_S,
        "last_success_ns": NOW_NS - 60 * NS_PER_S,
        "failures": 4,
    }
    found = values(series(Counts({("a", "failed"): 2}), [report("a", "unreachable", **check)]))
    assert found["source.health['a', 'unreachable']"] == 1.0
    assert sum(found[f"source.health['a', '{each}']"] for each in HealthStatus) == 1.0
    assert found["source.consecutive_errors['a']"] == 4.0
    assert found["source.last_check_age_seconds['a']"] == 5.0
    assert found["source.last_success_age_seconds['a']"] == 60.0
    assert (found["source.degraded_jobs['a']"], found["source.held_versions['a']"]) == (2.0, 1.0)
    assert found["source.rollouts['a', 'failed']"] == 2.0
    assert (found["sources['unreachable']"], found["sources['healthy']"]) == (1.0, 0.0)


def test_source_that_never_succeeded_is_as_old_as_its_first_error() -> None:
    found = values(series(Counts(), [report("a", error_since_ns=NOW_NS - 9 * NS_PER_S)]))
    assert found["source.last_success_age_seconds['a']"] == 9.0


def test_commits_that_wait_at_a_gate_are_counted_by_what_they_wait_for() -> None:
    counts = Counts({("a", "awaiting_approval"): 1, ("gone", "pending"): 1})
    found = values(series(counts, [report("a")]))
    assert found["source.waiting_rollouts['a', 'awaiting_approval']"] == 1.0
    assert found["source.waiting_rollouts['a', 'pending']"] == 0.0
    assert not [name for name in found if "gone" in name]


def test_paused_source_has_no_ages_that_would_raise_an_alert() -> None:
    found = values(series(Counts(), [report("a", "paused", True, last_check_ns=1)]))
    assert found["source.paused['a']"] == 1.0
    assert not [name for name in found if "age_seconds" in name]


def test_removed_source_has_no_series_though_its_rollouts_and_timings_are_kept() -> None:
    timings = SourceTimings(Durations().with_one(1.0), Durations())
    found = series(Counts({("gone", "healthy"): 7}), [report("a")], gone=timings)
    assert not [each for each in found if each.labels.get("source") == "gone"]


def test_sources_beyond_the_limit_are_only_counted() -> None:
    reports = [report(f"s{number:05}") for number in range(MAX_SOURCES + 5)]
    found = series(Counts(), reports)
    named = {each.labels["source"] for each in found if "source" in each.labels}
    assert named == {each.source.name for each in reports[:MAX_SOURCES]}
    assert values(found)["sources['healthy']"] == MAX_SOURCES + 5
