"""How long commits took until they were applied and healthy, by source, since this server leads."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from orchgit.model.base import NS_PER_S
from orchgit.model.rollout import Rollout, RolloutStatus

BOUNDS_S = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)


@dataclass(frozen=True, slots=True)
class Durations:
    """A histogram: `counts` has one number for each of `BOUNDS_S`, and one for all beyond."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS_S) + 1)
    total_s: float = 0.0

    def with_one(self, seconds: float) -> Durations:
        """Returns the histogram with one more duration; one below 0 counts as 0."""
        seconds = max(0.0, seconds)
        at = bisect_left(BOUNDS_S, seconds)
        counts = (*self.counts[:at], self.counts[at] + 1, *self.counts[at + 1 :])
        return Durations(counts, self.total_s + seconds)


@dataclass(frozen=True, slots=True)
class SourceTimings:
    """`to_applied`: from the commit's own time to its log entry; `to_healthy`: from there to the
    end of a rollout that became healthy."""

    to_applied: Durations = Durations()
    to_healthy: Durations = Durations()


class RolloutTimings:
    """Observes rollouts of the tracker. Reverts and jobs that run again are no new commits.

    `by_source` is replaced as a whole, so another thread may read it.
    """

    def __init__(self) -> None:
        self.by_source: Mapping[str, SourceTimings] = {}
        self._since_ns = 0

    def start(self, now_ns: int) -> None:
        """Begins with the rollouts that are applied from now on: the earlier leader observed the
        others."""
        self._since_ns = now_ns

    def applied(self, rollout: Rollout) -> None:
        """Observes a rollout once, after its commit was applied."""
        if self._is_observed(rollout):
            waited_ns = rollout.applied_time_ns - rollout.commit.time_ns
            known = self.by_source.get(rollout.source, SourceTimings())
            to_applied = known.to_applied.with_one(waited_ns / NS_PER_S)
            self._store(rollout.source, replace(known, to_applied=to_applied))

    def ended(self, rollout: Rollout) -> None:
        """Observes a rollout once, after its end."""
        if self._is_observed(rollout) and rollout.status == RolloutStatus.HEALTHY:
            took_ns = rollout.finished_time_ns - rollout.applied_time_ns
            known = self.by_source.get(rollout.source, SourceTimings())
            to_healthy = known.to_healthy.with_one(took_ns / NS_PER_S)
            self._store(rollout.source, replace(known, to_healthy=to_healthy))

    def keep(self, sources: Collection[str]) -> None:
        """Forgets the timings of all other sources."""
        if not self.by_source.keys() <= set(sources):
            kept = {name: each for name, each in self.by_source.items() if name in sources}
            self.by_source = kept

    def _is_observed(self, rollout: Rollout) -> bool:
        is_new_commit = not rollout.reverts and rollout.previous_commit != rollout.commit.id
        return rollout.was_applied and is_new_commit and rollout.applied_time_ns >= self._since_ns

    def _store(self, source: str, timings: SourceTimings) -> None:
        self.by_source = {**self.by_source, source: timings}
