"""How long to wait before the next attempt."""

from __future__ import annotations


def backoff_s(failures: int, first_s: float, max_s: float, spread: float = 1.0) -> float:
    """The delay after `failures` failures in a row: it doubles from `first_s` up to `max_s`.

    `spread`, 0 to 1, is where in the upper half of that the delay lies: callers that failed
    together come back at different times if each has another one.
    """
    return min(max_s, first_s * 2.0 ** min(failures, 64)) * (0.5 + spread / 2)
