"""Counts and times HTTP requests, by method and path pattern."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


@dataclass(slots=True)
class RequestTiming:
    count: int = 0
    total_s: float = 0.0
    max_s: float = 0.0
    min_s: float = float("inf")
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))


class RequestMetrics:
    """Owned by one app, on its event loop; needs no locks."""

    def __init__(self) -> None:
        self.timings: dict[tuple[str, str], RequestTiming] = {}

    def observe(self, method: str, path: str, seconds: float) -> None:
        timing = self.timings.get((method, path))
        if timing is None:
            timing = self.timings[(method, path)] = RequestTiming()
        timing.count += 1
        timing.total_s += seconds
        timing.max_s = max(timing.max_s, seconds)
        timing.min_s = min(timing.min_s, seconds)
        timing.buckets[bisect_left(BUCKETS_S, seconds)] += 1
