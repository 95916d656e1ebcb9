"""When this member stood still: its process was stopped, or got no processor. Silence of the others
in that time says nothing about them."""

from __future__ import annotations

from collections import deque

_MAX_SPANS = 64
"""Older ones are forgotten: then a standstill counts as silence, which is safe."""


class Standstills:
    """The spans of time, of any length, in which this member could hear nobody."""

    def __init__(self) -> None:
        self._spans: deque[tuple[float, float]] = deque(maxlen=_MAX_SPANS)
        """(begin, end), the newest last; they do not overlap."""

    def add(self, ended_s: float, length_s: float) -> None:
        self._spans.append((ended_s - length_s, ended_s))

    def awake_since(self, now_s: float, awake_s: float) -> float:
        """Returns the moment from which on this member was awake for `awake_s` altogether."""
        since_s = now_s - awake_s
        for began_s, ended_s in reversed(self._spans):
            if ended_s <= since_s:
                break
            since_s -= ended_s - began_s
        return since_s
