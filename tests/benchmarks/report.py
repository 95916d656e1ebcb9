"""The one line of JSON that a benchmark ends with."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence


def print_times(benchmark: str, times_s: Sequence[float], budget_p50_s: float) -> bool:
    """Median, 90th percentile and maximum of some measured times; returns whether the median is
    within its budget."""
    ordered = sorted(times_s)
    line = {
        "benchmark": benchmark,
        "runs": len(ordered),
        "p50_s": round(statistics.median(ordered), 4),
        "p90_s": round(ordered[int(len(ordered) * 0.9)], 4),
        "max_s": round(ordered[-1], 4),
        "budget_p50_s": budget_p50_s,
    }
    print(json.dumps(line), flush=True)
    return statistics.median(ordered) <= budget_p50_s


def print_figure(benchmark: str, is_within: bool, **figures: object) -> bool:
    """One figure with what it was measured on; returns whether it is within its budget."""
    print(json.dumps({"benchmark": benchmark, **figures, "within_budget": is_within}), flush=True)
    return is_within
