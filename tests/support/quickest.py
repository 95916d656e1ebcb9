"""How long something takes by itself: a machine with other work makes it longer, never shorter."""

from __future__ import annotations

from collections.abc import Callable

_TRIES = 5


def quickest_s(measure: Callable[[], float], enough_s: float) -> float:
    """Returns the shortest of several measured times; measures no more once one is short enough."""
    best_s = float("inf")
    for _ in range(_TRIES):
        best_s = min(best_s, measure())
        if best_s < enough_s:
            break
    return best_s
