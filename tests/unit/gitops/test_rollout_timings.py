"""How long commits take, as histograms by source."""

from __future__ import annotations

from typing import Any

import pytest

from orchgit.gitops.rollouts.timings import BOUNDS_S, Durations, RolloutTimings
from orchgit.model.base import NS_PER_S
from orchgit.model.rollout import Commit, Rollout

START_NS = 1_000 * NS_PER_S


def rollout(**fields: Any) -> Rollout:
    values: dict[str, Any] = {
        "id": "r",
        "source": "demo",
        "commit": Commit(id="b", time_ns=START_NS),
        "previous_commit": "a",
        "status": "healthy",
        "applied_time_ns": START_NS + 2 * NS_PER_S,
        "finished_time_ns": START_NS + 12 * NS_PER_S,
    }
    return Rollout(**(values | fields))


def timings() -> RolloutTimings:
    made = RolloutTimings()
    made.start(START_NS)
    return made


def test_healthy_commit_is_observed_from_its_time_and_from_its_application() -> None:
    made = timings()
    made.applied(rollout())
    made.ended(rollout())
    found = made.by_source["demo"]
    assert (sum(found.to_applied.counts), found.to_applied.total_s) == (1, 2.0)
    assert (sum(found.to_healthy.counts), found.to_healthy.total_s) == (1, 10.0)


@pytest.mark.parametrize(
    "fields",
    [
        {"reverts": "bad"},
        {"previous_commit": "b"},
        {"applied_time_ns": 0},
        {"applied_time_ns": START_NS - 1},
    ],
)
def test_what_is_no_new_commit_of_this_leader_is_not_observed(fields: dict[str, Any]) -> None:
    made = timings()
    made.applied(rollout(**fields))
    made.ended(rollout(**fields))
    assert made.by_source == {}


def test_commit_that_never_became_healthy_has_no_time_to_healthy() -> None:
    made = timings()
    made.ended(rollout(status="failed"))
    assert made.by_source == {}


@pytest.mark.parametrize(
    ("seconds", "at"), [(-5.0, 0), (0.1, 0), (0.2, 1), (3600.0, len(BOUNDS_S) - 1), (1e6, -1)]
)
def test_duration_counts_for_the_bound_that_it_does_not_exceed(seconds: float, at: int) -> None:
    found = Durations().with_one(seconds)
    assert found.counts[at] == sum(found.counts) == 1
    assert found.total_s == max(0.0, seconds)


def test_removed_source_is_forgotten() -> None:
    made = timings()
    made.applied(rollout())
    made.applied(rollout(source="other"))
    made.keep({"other"})
    assert set(made.by_source) == {"other"}
